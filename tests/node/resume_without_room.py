"""A resume that finds the GPU taken stays paused with its bytes whole, and works once there is room."""

import harness

RESOURCES = 5


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("fills a whole GPU: on the simulated one only")
    node.start_daemon()
    app = node.stepper("--buffers", 3, "--bytes", "200M")
    app.step()
    for policy in ("host", "disk"):
        node.expect(0, "pause", app.pid, "--policy", policy)
        # Not under Parkade, as another user's job would be: takes what the pause has freed.
        taker = node.stepper("--buffers", 1, "--bytes", "700M", park=False)
        done = node.expect(RESOURCES, "resume", app.pid)
        harness.holds("GPU" in done.err, f"the error must speak of GPU memory: {done.err.strip()}")
        harness.equal(node.state(app.pid), "paused", "state after the failed resume")
        taker.step()
        taker.finish()
        node.expect(0, "resume", app.pid)
        app.step()
    app.finish()


harness.scenario(run, gpu_bytes="1G")
