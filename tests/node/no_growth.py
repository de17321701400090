"""A program that is paused and resumed over and over holds no more threads, descriptors, address ranges and
memory afterwards than after the first times, and the daemon neither."""

import footprint
import harness

CYCLES, WARM_UP = 40, 8


def run(node):
    node.start_daemon(env=footprint.ONE_ARENA)
    app = node.stepper("--buffers", 20, "--bytes", "1,4K,3M", env=footprint.ONE_ARENA)
    samples = {"program": [], "daemon": []}
    for cycle in range(CYCLES):
        node.expect(0, "pause", app.pid, "--policy", ("host", "disk")[cycle % 2])
        node.expect(0, "resume", app.pid, "--release-host")
        harness.wait_for("the host memory is given back", lambda: not node.process(app.pid)["host_pool_bytes"])
        samples["program"].append(footprint.of(app.pid))
        samples["daemon"].append(footprint.of(node.daemon.pid, (node.root / "state", node.scratch)))
    app.step()
    for name, found in samples.items():
        footprint.check(name, found[WARM_UP:])
    app.finish()


harness.scenario(run)
