"""Without a daemon, and under PARKADE=off, programs run as if nothing were preloaded."""

import harness


def run(node):
    app = node.stepper()
    app.step()
    app.finish()
    harness.equal(app.errors(), "", "what the program under the shim wrote without a daemon")

    # A daemon that comes later adopts what runs already.
    late = node.stepper()
    late.step()
    off = node.stepper(env={"PARKADE": "off"})
    off.step()
    bare = node.stepper(park=False)
    node.start_daemon()
    harness.wait_for("the late daemon adopts the program", lambda: node.state(late.pid) == "running")
    harness.equal([p["pid"] for p in node.processes()], [late.pid], "listed programs")
    node.expect(0, "pause", late.pid)
    node.expect(0, "resume", late.pid)
    for app in (late, off, bare):
        app.step()
        app.finish()


harness.scenario(run)
