"""The daemon's orderly end while a program is paused to disk keeps the backup for the next daemon."""

import harness


def run(node):
    node.start_daemon()
    app = node.stepper()
    app.step()
    node.expect(0, "pause", app.pid, "--policy", "disk")
    harness.equal(node.stop_daemon(), 0, "exit code of the daemon's orderly end")
    harness.equal(len(node.scratch_entries()), 1, "scratch directories of the paused program")

    node.start_daemon()
    harness.wait_for("the next daemon adopts the program", lambda: node.state(app.pid) == "paused")
    node.expect(0, "resume", app.pid)
    app.step()
    app.finish()


harness.scenario(run)
