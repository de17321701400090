"""Memory bears the tags that its program gives it: listed by them, and a pause treats each by its own policy."""

import sys

import harness
import python_package

PROGRAM = harness.TREE / "tests/apps/tagging.py"
SIZE = 3 << 20


def by_tag(node, pid, key):
    sums = {}
    for allocation in node.json("show", pid)["allocations"]:
        sums.setdefault(allocation["tag"], set()).add(allocation[key])
    return sums


def tell(app, line, wanted):
    app.say(line)
    harness.equal(app.line(), wanted, line)


def run(node):
    python_package.load()
    node.start_daemon()
    environment = {"PYTHONPATH": str(harness.BUILD / "python"), "PARKADE_TAG": "rollout"}
    app = node.start(sys.executable, PROGRAM, env=environment)
    app.until("ready")
    tell(app, f"allocate plain {SIZE}", "allocated")
    tell(app, f"allocate cache {SIZE} kv_cache", "allocated")
    tell(app, f"allocate model {SIZE} kv_cache weights", "allocated")
    tell(app, f"allocate large {64 << 20} weights", "allocated")
    harness.equal(sorted(by_tag(node, app.pid, "bytes")), ["kv_cache", "rollout", "weights"], "tags listed")
    tell(app, "refused two,words", "ValueError")
    tell(app, "refused " + 32 * "x", "ValueError")
    tell(app, "refused " + 31 * "x", "taken")

    node.expect(2, "pause", app.pid, "--tag-policy", "optimizer=disk")
    node.expect(0, "pause", app.pid, "--tag-policy", "kv_cache=discard", "--tag-policy", "weights=disk")
    harness.equal(
        by_tag(node, app.pid, "place"), {"kv_cache": {"discarded"}, "weights": {"disk"}, "rollout": {"host"}},
        "places by tag")
    node.expect(0, "resume", app.pid)
    for name in ("plain", "model", "large"):
        tell(app, f"check {name}", "right")
    tell(app, "check cache", "wrong")
    app.end()

    # Without the library a program with tags runs all the same.
    bare = node.start(sys.executable, PROGRAM, env=environment, park=False)
    bare.until("ready")
    tell(bare, f"allocate cache {SIZE} kv_cache", "allocated")
    tell(bare, "check cache", "right")
    bare.end()


harness.scenario(run)
