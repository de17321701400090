"""A driver's function that is newer than the shim passes through, and `show` counts its name, once; names that
are known, or that the driver does not have, are not counted."""

import sys

import harness

APP = harness.TREE / "tests/apps/asking.py"


def ask(app, name):
    app.say(f"ask {name}")
    return app.line()


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("the simulated driver has a function that is newer than the headers")
    node.start_daemon()
    app = node.start(sys.executable, APP)
    app.until("ready")
    pid = harness.wait_for("the daemon lists it", lambda: next((p["pid"] for p in node.processes()), None))

    def unhooked():
        return node.json("show", pid)["process"]["unhooked_names"]

    harness.equal(unhooked(), 0, "names that no hook knows")
    harness.equal(ask(app, "cuMemAlloc_v2"), "found", "a known name")
    harness.equal(ask(app, "cuNoSuchThing"), "none", "a name of nobody's")
    harness.equal(unhooked(), 0, "names that no hook knows")
    for _ in range(3):
        harness.equal(ask(app, "cuSimulatedFuture"), "found", "a newer name")
        harness.wait_for("it is counted once", lambda: unhooked() == 1)
    said = node.expect(0, "show", pid).out
    harness.holds("unhooked: 1 names" in " ".join(said.split()), f"what show says: {said}")


harness.scenario(run)
