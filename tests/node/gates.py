"""What a program can do while it is paused: at a closed gate frees pass and allocations and work wait, pass or
fail, as the pause says; at an open gate it works on. Nothing of that is moved by the resume, and nothing
is released twice."""

import harness

BUFFERS = 60


def churn(node):
    app = node.start(harness.BUILD / "bin/churn", 1).ready()
    harness.wait_for("the program is listed", lambda: node.state(app.pid) == "running")
    tell(app, f"allocate {BUFFERS}")
    tell(app, "step")
    return app


def tell(app, line, deadline=harness.PATIENCE):
    app.say(line)
    app.until(f"{line.split()[0]} ok", deadline)


def at_gate(node, app):
    harness.wait_for("a thread waits at the gate", lambda: node.process(app.pid)["gated_threads"] == 1)


def live(node, app):
    return len(node.json("show", app.pid)["allocations"])


def run(node):
    node.start_daemon()
    app = churn(node)

    # Closed: frees pass, an allocation waits until the resume.
    for policy in ("host", "disk"):
        node.expect(0, "pause", app.pid, "--policy", policy)
        tell(app, "free 10")
        harness.equal(live(node, app), BUFFERS - 10, "live allocations after frees while paused")
        app.say("allocate 10")
        at_gate(node, app)
        harness.equal(node.json("pause", app.pid)["results"][0]["already"], True, "already, at a second pause")
        node.expect(0, "resume", app.pid)
        app.until("allocate ok")
        harness.equal(live(node, app), BUFFERS, "live allocations after the resume")
        tell(app, "step")
        tell(app, "step")

    # Closed, but allocations pass; work still waits.
    node.expect(0, "pause", app.pid, "--gated-allocations", "pass")
    tell(app, "free 20")
    tell(app, "allocate 30")
    app.say("step")
    at_gate(node, app)
    node.expect(0, "resume", app.pid)
    app.until("step ok")
    harness.equal(live(node, app), BUFFERS + 10, "live allocations after the resume")

    # Open: it frees and allocates, and none of its threads ever waits.
    node.expect(0, "pause", app.pid, "--gate", "open")
    harness.equal(node.process(app.pid)["gate_mode"], "open", "the gate of the paused program")
    tell(app, "free 20")
    tell(app, "allocate 10")
    harness.equal(node.process(app.pid)["gated_threads"], 0, "threads at an open gate")
    node.expect(0, "resume", app.pid)
    tell(app, "step")
    harness.equal(live(node, app), BUFFERS, "live allocations after the resume")

    # Closed, and work fails: the program hears of it at once.
    node.expect(0, "pause", app.pid, "--gated-work", "fail")
    app.say("step")
    harness.equal(app.process.wait(harness.PATIENCE), 2, "exit code of the program whose work failed")
    harness.holds("SYSTEM_NOT_READY" in app.errors(), f"the error that it got: {app.errors()}")


harness.scenario(run)
