"""One process pauses while another resumes into the same memory, both asked at once: with time to
wait none is refused, and each has its bytes."""

import concurrent.futures
import json

import harness


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("fills a whole GPU: on the simulated one only")
    node.start_daemon()
    inside = node.stepper("--buffers", 3, "--bytes", "60M")
    inside.step()
    node.expect(0, "pause", inside.pid)
    outside, inside = inside, node.stepper("--buffers", 3, "--bytes", "60M")
    inside.step()
    waited = 0
    for turn in range(20):
        # In turn first the one, then the other: neither order may matter.
        resume = ["resume", outside.pid, "--wait", "60s", "-o", "json"]
        pause = ["pause", inside.pid, "-o", "json"]
        words = [resume, pause] if turn % 2 == 0 else [pause, resume]
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            answers = list(threads.map(lambda w: node.expect(0, *w), words))
        waited += sum(json.loads(done.out)["results"][0]["wait_seconds"] for done in answers)
        outside, inside = inside, outside
        harness.equal(node.state(outside.pid), "paused", f"turn {turn}: state of the one outside")
        inside.step()
    harness.holds(waited > 0, "a resume that comes first must have waited")
    # Without the pause there is nothing to wait for: refused at once, and later in time.
    for words in ([], ["--wait", "300ms"]):
        done = node.expect(5, "resume", outside.pid, *words)
        harness.holds(f"{inside.pid}=" in done.err, f"the holder must be named: {done.err.strip()}")
        harness.equal(node.state(outside.pid), "paused", "state after the refused resume")
    inside.finish()
    node.expect(0, "resume", outside.pid, "--wait", "10s")
    outside.step()
    outside.finish()


harness.scenario(run, gpu_bytes="320M")
