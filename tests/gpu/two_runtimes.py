"""Two private copies of the CUDA runtime in one process: each allocation is counted once, moves, is computed on and freed
by its own runtime."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

PROGRAM = harness.TREE / "tests/apps/two_runtimes.py"
SIZES = [100 << 20, 3 << 20]


def run(node):
    plugins = [harness.BUILD / f"lib/libruntime_plugin_{name}.so" for name in ("a", "b")]
    if not harness.ON_CARD or not all(plugin.exists() for plugin in plugins):
        raise harness.Skip("the CUDA runtime needs a card, and a build with nvcc")
    node.start_daemon()
    app = node.start(sys.executable, PROGRAM)
    harness.equal(app.line(), "ready", "first line")

    def ask(words):
        app.say(words)
        return app.line(60.0)

    for plugin, size in zip(plugins, SIZES):
        harness.equal(ask(f"begin {plugin} {size}"), "begun", "a runtime begins")
    harness.wait_for("it is listed", lambda: node.state(app.pid) == "running")
    listed = sorted(a["bytes"] for a in node.json("show", app.pid)["allocations"])
    harness.equal(listed, sorted(SIZES), "allocations of both runtimes")
    total = 0
    for policy in ("host", "disk"):
        harness.equal(ask("add 7"), "added", "kernels of both")
        total += 7
        free = node.gpu_free()
        node.expect(0, "pause", app.pid, "--policy", policy)
        harness.holds(node.gpu_free() - free >= sum(SIZES), "the driver shows both free")
        node.expect(0, "resume", app.pid)
        harness.equal(ask("read"), f"read {total} {total} {2 * total} {2 * total}", "words of both")
    harness.equal(ask("end"), "ended", "each frees its own")
    harness.wait_for("nothing is listed any more", lambda: not node.json("show", app.pid)["allocations"])


harness.scenario(run)
