"""A process with a host pool of tens of GiB forks children, paused and running: they come at once, without a copy of it,
and their ends leave it alone."""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

PROGRAM = harness.TREE / "tests/apps/family.py"
GIB = 1 << 30


def fits():
    """Half of what the host can give, 100 GiB at most: the pool and what the kernel wants beside it."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        available = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    return min(100 * GIB, available // 2 // GIB * GIB)


def ask(app, words):
    app.say(words)
    return app.line(300.0)


def run(node):
    if not harness.ON_CARD:
        raise harness.Skip("tests/node/lifetimes does this with the simulated GPU's memory")
    size = min(fits(), node.gpu_free() * 3 // 4 // GIB * GIB)
    if size < 8 * GIB:
        raise harness.Skip(f"{size >> 30} GiB are too few to tell")
    node.start_daemon()
    app = node.start(sys.executable, PROGRAM)
    harness.equal(app.line(), "ready", "first line")
    app.pid = int(ask(app, f"context {size}").split()[1])
    harness.wait_for("it is listed", lambda: node.state(app.pid) == "running")
    node.expect(0, "pause", app.pid)
    for when in ("paused", "running"):
        found = json.loads(ask(app, "tree 2 3").split(" ", 2)[2])
        harness.equal(found["wrong"], [], "what children have that they must not")
        print(f"{when}, pool of {size >> 30} GiB: slowest fork {found['slowest_fork'] * 1e3:.1f} ms, {found['rss_kib'] >> 10} MiB in a child")
        harness.holds(found["rss_kib"] << 10 < GIB, "a child has no copy of the pool")
        harness.holds(found["writable_kib"] << 10 < size // 2, "nor its addresses")
        harness.holds(found["slowest_fork"] < 1.0, "a fork copies no page tables of it")
        if when == "paused":
            node.expect(0, "resume", app.pid)
    harness.equal(ask(app, "check"), "right", "bytes")
    node.expect(0, "pause", app.pid)
    os.kill(app.pid, 15)
    harness.equal(app.process.wait(60.0), -15, "end by SIGTERM while paused")
    harness.wait_for("it is forgotten", lambda: not node.processes())


harness.scenario(run)
