"""Children of a paused and resumed program, forked and spawned, run and leave their parent alone."""

import harness

PROGRAM = harness.TREE / "tests/apps/forking.py"


def run(node):
    node.start_daemon()
    app = node.start("python3", PROGRAM)
    harness.equal(app.line(), "ready", "first line of the forking program")
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")
    for policy in ("host", "disk"):
        app.ask_step()
        harness.equal(app.line(), "children ended well, bytes right", "the round before a pause")
        node.expect(0, "pause", app.pid, "--policy", policy)
        app.ask_step()
        node.expect(0, "resume", app.pid)
        harness.equal(app.line(), "children ended well, bytes right", "the round during a pause")
    harness.equal(len(node.processes()), 1, "listed programs: the children made no context")
    app.process.stdin.close()
    harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code of the forking program")


harness.scenario(run)
