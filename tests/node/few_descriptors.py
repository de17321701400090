"""With 64 descriptors at most, a program of 2,000 allocations is paused and resumed, to host and to disk."""

import harness

LIMIT, ALLOCATIONS = 64, 2000


def run(node):
    node.start_daemon()
    park = [harness.BUILD / "bin/parkade", "run", "--", harness.BUILD / "bin/stepper", "--on-input"]
    limited = ["prlimit", f"--nofile={LIMIT}:{LIMIT}", *park, "--buffers", ALLOCATIONS, "--bytes", "4K,100,9000"]
    app = node.start(*limited, park=False).ready()
    harness.wait_for("the program is listed", lambda: node.state(app.pid) == "running")
    app.step()
    for policy in ("host", "disk", "host"):
        node.expect(0, "pause", app.pid, "--policy", policy)
        node.expect(0, "resume", app.pid)
        app.step()
    app.finish()


harness.scenario(run)
