"""A program killed while its bytes move: the command says so, and within a second nothing is left."""

import harness


def run(node):
    node.start_daemon()
    free_at_start = node.gpu_free()
    for verb, call in (("pause", "cuMemcpyDtoHAsync"), ("resume", "cuMemcpyHtoDAsync")):
        app = node.stepper("--buffers", 3, "--bytes", "50M")
        app.step()
        words = ("--policy", "disk") if verb == "pause" else ()
        if verb == "resume":
            node.expect(0, "pause", app.pid, "--policy", "disk")
        node.faults(f"{call} 2 kill pid={app.pid}")
        done = node.cli(verb, app.pid, *words)
        harness.holds(done.code not in (0, 124), f"{verb} of a killed program must fail, not {done.code}: {done.err}")
        harness.wait_for("the registration is gone", lambda: node.state(app.pid) is None, 1.0)
        harness.wait_for("its scratch is gone", lambda: not node.scratch_entries(), 1.0)
        harness.wait_for("its GPU memory is free", lambda: node.gpu_free_is(free_at_start))


harness.scenario(run)
