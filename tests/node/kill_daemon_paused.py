"""The daemon killed while a program is paused: it stays paused, and the next daemon resumes it."""

import harness


def run(node):
    for policy in ("host", "disk"):
        node.start_daemon()
        app = node.stepper("--buffers", 6, "--bytes", "1,4K,50M")
        app.step()
        node.expect(0, "pause", app.pid, "--policy", policy)
        app.ask_step()
        node.kill_daemon()

        node.start_daemon()
        harness.wait_for("the next daemon adopts the program", lambda: node.state(app.pid) == "paused")
        node.expect(0, "resume", app.pid)
        app.stepped()
        app.finish()
        harness.wait_for("its scratch is gone", lambda: not node.scratch_entries(), 1.0)
        harness.equal(node.stop_daemon(), 0, "exit code of the daemon's orderly end")


harness.scenario(run)
