"""Whatever driver call fails in a pause, the program runs on with its bytes; whatever fails in a resume,
it stays paused with them and the next resume brings them back."""

import harness

UNKNOWN, OUT_OF_MEMORY = 999, 2
PAUSE_CALLS = ("cuMemcpyDtoHAsync", "cuEventRecord", "cuEventQuery", "cuMemUnmap", "cuMemRelease", "cuMemHostRegister")
RESUME_CALLS = ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemcpyHtoDAsync", "cuEventRecord", "cuEventQuery")


def attempt(node, app, words, call, nth, stays):
    """Runs a command with one fault; when it fails the program must be in the state `stays`."""
    node.faults(f"{call} {nth} fail {OUT_OF_MEMORY if call == 'cuMemCreate' else UNKNOWN} pid={app.pid}")
    done = node.cli(*words)
    node.faults()
    if done.code == 0:
        return False
    harness.equal(node.state(app.pid), stays, f"state after {words[0]} with the {nth}th {call} failing ({done.err.strip()})")
    return True


def run(node):
    node.start_daemon()
    app = node.stepper("--buffers", 6, "--bytes", "1,4K,40M,3M")
    app.step()
    failures = set()
    for policy in ("host", "disk"):
        for nth in (1, 2, 3):
            for call in PAUSE_CALLS:
                if attempt(node, app, ("pause", app.pid, "--policy", policy), call, nth, "running"):
                    failures.add(call)
                app_steps(node, app)
            for call in RESUME_CALLS:
                node.expect(0, "pause", app.pid, "--policy", policy)
                if attempt(node, app, ("resume", app.pid), call, nth, "paused"):
                    failures.add(call)
                app_steps(node, app)
    app.finish()
    # Some calls are not made, or the shim does without them; these no pause and resume can miss.
    for call in ("cuMemcpyDtoHAsync", "cuMemUnmap", "cuMemCreate", "cuMemMap", "cuMemcpyHtoDAsync"):
        harness.holds(call in failures, f"a failing {call} must have been noticed; noticed were {sorted(failures)}")


def app_steps(node, app):
    node.expect(0, "resume", app.pid)
    app.step()


harness.scenario(run)
