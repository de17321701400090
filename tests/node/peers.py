"""Peer access between two GPUs of one process: to memory made before it was enabled and after, through a
pause and a resume, until it is disabled. Needs two GPUs."""

import harness

PROGRAM = harness.TREE / "tests/apps/peers.py"
TWO = {"SIM_GPUS": "2"}
SIZE = 40 << 20


def run(node):
    node.start_daemon(env=TWO)
    app = node.start("python3", PROGRAM, env=TWO)
    first = app.line()
    if first != "ready":
        raise harness.Skip(first)
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")

    def expect(wanted, *words):
        app.say(" ".join(map(str, words)))
        harness.equal(app.line(), wanted, f"the answer to {words}")

    expect("allocated 0", "alloc", 1, SIZE)
    expect("filled", "fill", 0, 17)
    expect("none", "access", 0, 0)
    expect("0", "enable", 0, 1)
    expect("allocated 1", "alloc", 1, 4096)
    expect("allocated 2", "alloc", 0, SIZE)
    for index in (0, 1):
        expect("full", "access", index, 0)
    expect("none", "access", 2, 1)
    for policy in ("host", "disk"):
        node.expect(0, "pause", app.pid, "--policy", policy)
        node.expect(0, "resume", app.pid)
        for index in (0, 1):
            expect("full", "access", index, 0)
        expect("none", "access", 2, 1)
        expect("right", "check", 0, 17)
        expect("copied", "copy", 0, 2)
        expect("right", "check", 2, 17)
    expect("0", "disable", 0, 1)
    expect("none", "access", 0, 0)
    node.expect(0, "pause", app.pid)
    node.expect(0, "resume", app.pid)
    expect("none", "access", 0, 0)
    expect("right", "check", 0, 17)


harness.scenario(run)
