"""Two programs that do not fit on the GPU together take turns on it, over and over: when a pause has been
answered its memory is free, and a resume that may wait never fails."""

import harness

TURNS = 12


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("fills a whole GPU: on the simulated one only")
    node.start_daemon()
    inside = node.stepper("--buffers", 5, "--bytes", "30M")
    node.expect(0, "pause", inside.pid)
    outside = inside
    inside = node.stepper("--buffers", 5, "--bytes", "30M")
    for turn in range(TURNS):
        if turn % 2 == 0:
            # Both at the same instant: the resume waits for what the pause frees.
            resume = node.start_cli("resume", outside.pid, "--wait", "30s")
            node.expect(0, "pause", inside.pid)
            _, error = resume.communicate(timeout=harness.PATIENCE)
            harness.equal(resume.returncode, 0, f"exit code of resume {turn} ({error.strip()})")
        else:
            node.expect(0, "pause", inside.pid)
            node.expect(0, "resume", outside.pid)
        inside, outside = outside, inside
        inside.step()
    node.json("pause", inside.pid)
    for app in (inside, outside):
        node.expect(0, "resume", app.pid)
        app.step()
        app.finish()


harness.scenario(run, gpu_bytes="256M")
