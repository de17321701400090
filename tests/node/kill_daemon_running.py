"""The daemon killed while a program runs: the program goes on, and the next daemon can pause it."""

import harness


def run(node):
    node.start_daemon()
    app = node.stepper()
    app.step()
    node.kill_daemon()
    for _ in range(3):
        app.step()
    harness.equal(node.cli("ps").code, 6, "exit code of parkade ps without a daemon")

    node.start_daemon()
    harness.wait_for("the next daemon adopts the program", lambda: node.state(app.pid) == "running")
    node.expect(0, "pause", app.pid, "--policy", "disk")
    node.expect(0, "resume", app.pid)
    app.step()
    app.finish()


harness.scenario(run)
