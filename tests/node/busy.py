"""GPU work that does not end in time makes a pause fail: the answer names device and stream and says
for how long, nothing has changed, and meanwhile `parkade ps` answers as fast as ever."""

import re
import statistics
import time

import harness

PRECONDITION = 4
SPIN_MS = 4000
CALLS = 50
# The requirement is 50 ms a call, the start of the command included.
MAX_MEDIAN_SECONDS = 0.05


def refused(node, app):
    app.say(f"spin {SPIN_MS}")
    app.until("spinning")
    done = node.expect(PRECONDITION, "pause", app.pid, "--drain-timeout", "500ms")
    for what, pattern in (
        ("BUSY", r"\bBUSY\b"),
        ("the process", rf"\b{app.pid}\b"),
        ("the device", r"\bdevice 0\b"),
        ("a stream", r"\bstream\b"),
        ("how long", r"\b\d+(\.\d+)? ?m?s\b"),
    ):
        harness.holds(re.search(pattern, done.err), f"the refusal must name {what}: {done.err.strip()}")
    print(done.err.strip())
    harness.equal(node.state(app.pid), "running", "state after the refused pause")
    app.step()


def ps_seconds(node):
    begin = time.perf_counter()
    node.expect(0, "ps")
    return time.perf_counter() - begin


def run(node):
    node.start_daemon()
    app = node.verifier()
    other = node.stepper()
    app.step()
    refused(node, app)

    app.say(f"spin {SPIN_MS}")
    app.until("spinning")
    pause = node.start_cli("pause", app.pid, "--drain-timeout", "30s")
    harness.wait_for("the pause drains", lambda: node.state(app.pid) == "preparing")
    seconds = [ps_seconds(node) for _ in range(CALLS)]
    harness.equal(node.state(app.pid), "preparing", "state after all these calls: the drain was not long enough")
    median = statistics.median(seconds)
    print(f"parkade ps during a drain: median {median * 1e3:.1f} ms, longest {max(seconds) * 1e3:.1f} ms of {CALLS}")
    harness.holds(median <= MAX_MEDIAN_SECONDS, f"the median of {median * 1e3:.1f} ms is too long")

    # The drain ends with the kernels, and the pause goes on by itself.
    harness.equal(pause.wait(harness.PATIENCE), 0, "exit code of the pause that waited")
    harness.equal(node.state(app.pid), "paused", "state after it")
    other.step()
    node.expect(0, "resume", app.pid)
    for each in (app, other):
        each.step()
        each.finish()


harness.scenario(run)
