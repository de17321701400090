"""Requests that cannot be met are refused with the exit code of their kind, and nothing changes."""

import harness

USAGE, NOT_FOUND = 2, 3


def run(node):
    node.start_daemon()
    app = node.stepper()
    app.step()
    nobody = 4_000_000  # above the kernel's largest pid

    for words, code in (
        (("pause", nobody), NOT_FOUND),
        (("resume", nobody), NOT_FOUND),
        (("show", nobody), NOT_FOUND),
        (("pause",), USAGE),
        (("pause", "banana"), USAGE),
        (("pause", 0), USAGE),
        (("pause", -1), USAGE),
        (("pause", app.pid, "--policy", "banana"), USAGE),
        (("pause", app.pid, "--policy", "discard"), USAGE),
        (("pause", app.pid, "--timeout", "0s"), USAGE),
        (("pause", app.pid, "--timeout", "-1s"), USAGE),
        (("pause", app.pid, "--scratch-dir", "relative/path", "--policy", "disk"), USAGE),
        (("banana",), USAGE),
    ):
        done = node.cli(*words)
        harness.equal(done.code, code, f"exit code of parkade {words} ({done.err.strip()})")
        harness.holds(done.err.strip(), f"parkade {words} must say what is wrong")

    harness.equal(node.state(app.pid), "running", "state after the refused requests")
    harness.equal(node.scratch_entries(), [], "left in scratch")
    app.step()
    app.finish()


harness.scenario(run)
