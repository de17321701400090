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


def poison(node, environment):
    app = node.start(sys.executable, PROGRAM, env=environment | {"PARKADE_POISON": "on"})
    app.until("ready")
    tell(app, f"allocate cache {SIZE} kv_cache", "allocated")
    tell(app, f"allocate large {64 << 20} kv_cache", "allocated")
    tell(app, f"allocate model {SIZE} weights", "allocated")
    harness.equal(node.json("show", app.pid)["process"]["warnings"], [], "warnings before anything was discarded")
    for policy in ("host", "disk"):
        node.expect(0, "pause", app.pid, "--policy", policy, "--tag-policy", "kv_cache=discard")
        node.expect(0, "resume", app.pid)
        for name in ("cache", "large"):
            tell(app, f"poisoned {name}", "poisoned")
        tell(app, "check model", "right")
    (warning,) = node.json("show", app.pid)["process"]["warnings"]
    harness.holds("0xCB" in warning and "PARKADE_POISON" in warning, f"what is said of it: {warning}")
    app.end()


def prefetch(node, parkade, environment):
    """Of some tags alone, in their order as far as there is room."""
    client = parkade.Client(str(node.runtime))
    app = node.start(sys.executable, PROGRAM, env=environment)
    app.until("ready")
    for name, size, tag in (("model", 64 << 20, "weights"), ("cache", 64 << 20, "kv_cache"), ("rest", SIZE, "")):
        tell(app, f"allocate {name} {size} {tag}", "allocated")

    def places():
        return {tag: place.pop() for tag, place in by_tag(node, app.pid, "place").items()}

    client.pause(app.pid, policy="disk")
    python_package.fails(parkade.InvalidArgument, "UNKNOWN_TAG", lambda: client.prefetch(app.pid, tags="optimizer"), tag="optimizer")
    harness.equal(client.prefetch(app.pid, tags="optimizer", allow_empty=True)[0].already, True, "a tag that nobody has")
    harness.equal(places(), {"weights": "disk", "kv_cache": "disk", "rollout": "disk"}, "places before")
    (result,) = client.prefetch(app.pid, tags=["weight"])
    harness.equal((result.host_bytes > 0, result.left_bytes), (True, 0), "what came of the weights")
    harness.equal(places(), {"weights": "host", "kv_cache": "disk", "rollout": "disk"}, "places of a part")
    node.expect(0, "prefetch", app.pid, "--tags", "rollout,weights")
    harness.equal(places(), {"weights": "host", "kv_cache": "disk", "rollout": "host"}, "places of two parts")
    client.resume(app.pid)
    for name in ("model", "cache", "rest"):
        tell(app, f"check {name}", "right")

    # With room for one of two the first comes whole.
    client.pause(app.pid, policy="disk", chunk_bytes=16 << 20)
    node.expect(0, "resume", app.pid, "--release-host")
    client.pause(app.pid, policy="disk", chunk_bytes=16 << 20)
    # Beside the 64 MiB that bytes pass through.
    client.set_budget(host_bytes=(64 + 64 + 8) << 20)
    (result,) = client.prefetch(app.pid, tags="kv_cache weights")
    harness.holds(0 < result.left_bytes < 64 << 20, f"{result.left_bytes} bytes had no room")
    harness.equal(places()["kv_cache"], "host", "the place of what was named first")
    client.set_budget(host_bytes=0)
    client.resume(app.pid)
    for name in ("model", "cache", "rest"):
        tell(app, f"check {name}", "right")
    app.end()


def run(node):
    parkade = python_package.load()
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
    tell(app, "poisoned cache", "not")
    app.end()
    poison(node, environment)
    prefetch(node, parkade, environment)

    # Without the library a program with tags runs all the same.
    bare = node.start(sys.executable, PROGRAM, env=environment, park=False)
    bare.until("ready")
    tell(bare, f"allocate cache {SIZE} kv_cache", "allocated")
    tell(bare, "check cache", "right")
    bare.end()


harness.scenario(run)
