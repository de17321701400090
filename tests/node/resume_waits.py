"""A resume that finds the GPU taken says what it needs, what is free and who holds it; asked to wait, it goes
on when the memory becomes free, and else ends at its deadline with the program still paused."""

import re
import time

import harness

RESOURCES = 5


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("fills a whole GPU: on the simulated one only")
    node.start_daemon()
    app = node.stepper("--buffers", 3, "--bytes", "200M")
    app.step()
    node.expect(0, "pause", app.pid)
    taker = node.stepper("--buffers", 1, "--bytes", "700M", park=False)

    done = node.expect(RESOURCES, "resume", app.pid)
    for what, pattern in (
        ("what is needed", r"\b6\d\d(\.\d+)? MiB\b"),
        ("what is free", r"\b\d+(\.\d+)? MiB\b.*\bfree\b|\bfree\b.*\b\d+(\.\d+)? MiB\b"),
        ("who holds it", rf"\b{taker.pid}\b"),
    ):
        harness.holds(re.search(pattern, done.err), f"the error must say {what}: {done.err.strip()}")
    print(done.err.strip())

    begin = time.monotonic()
    node.expect(RESOURCES, "resume", app.pid, "--wait", "1s")
    harness.holds(time.monotonic() - begin >= 1.0, "a resume that may wait must wait")
    harness.equal(node.state(app.pid), "paused", "state after the wait in vain")

    resume = node.start_cli("resume", app.pid, "--wait", "60s")
    node.expect(0, "ps")
    harness.equal(resume.poll(), None, "exit code of the resume that waits")
    taker.step()
    taker.finish()
    harness.equal(resume.wait(harness.PATIENCE), 0, "exit code of the resume, when there is room")
    app.step()
    app.finish()


harness.scenario(run, gpu_bytes="1G")
