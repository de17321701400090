"""A program whose thread waits at the gate of a pause still ends by a signal, at once and leaving nothing."""

import signal

import harness


def run(node):
    node.start_daemon()
    free_at_start = node.gpu_free()
    for number in (signal.SIGTERM, signal.SIGINT):
        app = node.verifier()
        app.step()
        node.expect(0, "pause", app.pid, "--policy", "disk")
        app.ask_step()
        harness.wait_for("a thread waits at the gate", lambda: node.process(app.pid)["gated_threads"] == 1)
        app.process.send_signal(number)
        harness.equal(app.process.wait(5.0), -number, "how the program ended")
        harness.wait_for("the registration is gone", lambda: node.state(app.pid) is None, 1.0)
        harness.wait_for("its scratch is gone", lambda: not node.scratch_entries(), 1.0)
        harness.wait_for("its GPU memory is free", lambda: node.gpu_free_is(free_at_start))


harness.scenario(run)
