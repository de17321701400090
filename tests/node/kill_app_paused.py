"""A program killed while paused, to host or to disk, is forgotten and its scratch gone within a second."""

import time

import harness


def run(node):
    node.start_daemon()
    free_at_start = node.gpu_free()
    for policy in ("host", "disk"):
        app = node.stepper("--buffers", 6, "--bytes", "1,4K,50M")
        app.step()
        node.expect(0, "pause", app.pid, "--policy", policy)
        if policy == "disk":
            harness.equal(len(node.scratch_entries()), 1, "scratch directories while paused")
        killed = time.monotonic()
        app.kill()
        harness.wait_for("the registration is gone", lambda: node.state(app.pid) is None, 1.0)
        left = 1.0 - (time.monotonic() - killed)
        harness.wait_for("its scratch is gone", lambda: not node.scratch_entries(), max(left, 0))
        harness.wait_for("its GPU memory is free", lambda: node.gpu_free_is(free_at_start))


harness.scenario(run)
