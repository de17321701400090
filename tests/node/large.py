"""An allocation of 1 GiB comes back exactly, and while it is paused the driver shows its memory free."""

import harness

GIB = 1 << 30


def run(node):
    node.start_daemon()
    app = node.stepper("--buffers", 4, "--bytes", "1G,1,32M,33M")
    app.step()
    for policy in ("host", "disk"):
        before = node.gpu_free()
        node.expect(0, "pause", app.pid, "--policy", policy)
        harness.holds(node.gpu_free() - before >= GIB, f"1 GiB must be free after a pause to {policy}")
        node.expect(0, "resume", app.pid)
        harness.holds(before - node.gpu_free() < (64 << 20), "the memory must be in use after the resume")
        app.step()
    app.finish()


harness.scenario(run)
