"""A program that ran, was paused to disk and resumed, and is then killed leaves nothing behind."""

import harness


def run(node):
    node.start_daemon()
    app = node.stepper()
    node.expect(0, "pause", app.pid, "--policy", "disk")
    node.expect(0, "resume", app.pid)
    app.step()
    app.kill()
    harness.wait_for("the registration is gone", lambda: node.state(app.pid) is None, 1.0)
    harness.wait_for("its scratch is gone", lambda: not node.scratch_entries(), 1.0)
    harness.equal(node.stop_daemon(), 0, "exit code of the daemon's orderly end")


harness.scenario(run)
