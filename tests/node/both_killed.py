"""Daemon and paused program both killed: the next daemon sweeps their scratch, and only theirs."""

import harness


def run(node):
    node.start_daemon()
    app = node.stepper()
    node.expect(0, "pause", app.pid, "--policy", "disk")
    harness.equal(len(node.scratch_entries()), 1, "scratch directories while paused")
    node.kill_daemon()
    app.kill()
    stranger = node.scratch / "parkade-v1" / "p1-of-somebody-else"
    stranger.mkdir()
    (stranger / "file").write_text("not ours")

    node.start_daemon()
    harness.wait_for("the sweep", lambda: node.scratch_entries() == [stranger.name])
    harness.equal((stranger / "file").read_text(), "not ours", "the stranger's file")


harness.scenario(run)
