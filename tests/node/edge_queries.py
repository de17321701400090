"""What queries say of an address (attributes one by one and together, ranges, handles) is the same before,
during and after a pause, to host and to disk: asked with the gate closed, and answered at once."""

import harness


def look(app):
    app.say("")
    said = []
    while (line := app.line()) != "looked":
        said.append(line)
    return said


def run(node):
    node.env["PARKADE_ELISION"] = "off"  # every byte is to move, also one that has not changed
    node.start_daemon()
    app = node.start(harness.BUILD / "bin/edge_calls", "--watch").ready()
    harness.wait_for("the daemon lists it", lambda: node.state(app.pid) == "running")
    before = look(app)
    harness.holds(len(before) == 17, f"17 places: {len(before)}")
    for policy in ("host", "disk", "host"):
        node.expect(0, "pause", app.pid, "--policy", policy)
        places = {a["place"] for a in node.json("show", app.pid)["allocations"]}
        harness.equal(places, {policy}, "where the bytes are")
        for old, new in zip(before, look(app)):
            harness.equal(new, old, f"what is said during a pause to {policy}")
        node.expect(0, "resume", app.pid)
        for old, new in zip(before, look(app)):
            harness.equal(new, old, f"what is said after a pause to {policy}")


harness.scenario(run)
