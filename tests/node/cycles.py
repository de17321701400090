"""A hundred pauses and resumes, to host memory and to disk in turn, leave every byte as it was."""

import harness

CYCLES = 100


def run(node):
    node.start_daemon()
    app = node.stepper("--buffers", 12, "--bytes", "1,5,4K,1M,3M,40000001")
    app.step()
    for cycle in range(CYCLES):
        policy = ("host", "disk")[cycle % 2]
        node.expect(0, "pause", app.pid, "--policy", policy)
        harness.equal(node.state(app.pid), "paused", "state after the pause")
        # The step asked for now must wait at the gate, and find its bytes after the resume.
        app.ask_step()
        node.expect(0, "resume", app.pid)
        app.stepped()
    app.finish()
    harness.wait_for("the ended process is forgotten", lambda: node.state(app.pid) is None)
    harness.equal(node.scratch_entries(), [], "left in scratch")


harness.scenario(run)
