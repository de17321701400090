"""A driver that says it has mapped memory and has not, at any mapping of a resume: the resume fails, the
program stays paused with its bytes whole, and the next resume brings them back."""

import harness


def run(node):
    node.start_daemon()
    app = node.stepper("--buffers", 4, "--bytes", "1,40M")
    app.step()
    noticed = 0
    for policy in ("host", "disk"):
        for call in ("cuMemMap", "cuMemSetAccess"):
            for nth in range(1, 10):
                node.expect(0, "pause", app.pid, "--policy", policy)
                node.faults(f"{call} {nth} fail 0 pid={app.pid}")
                done = node.cli("resume", app.pid)
                node.faults()
                if done.code == 0:
                    break
                noticed += 1
                harness.equal(node.state(app.pid), "paused", f"state after a lost {call} {nth} ({done.err.strip()})")
                node.expect(0, "resume", app.pid)
                app.step()
            app.step()
    print(f"{noticed} lost calls, each of them noticed")
    harness.holds(noticed >= 8, "so few calls that not every mapping can have been among them")
    app.finish()


harness.scenario(run)
