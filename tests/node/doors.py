"""64 MiB made by each door of the driver's interface (linked symbols, dlsym, both forms of cuGetProcAddress, ctypes)
are listed once, leave the GPU, come back, and compute what they did before."""

import sys

import harness

SIZE = 64 << 20
CTYPES = harness.TREE / "tests/apps/adding.py"


def listed(node, app):
    return [a["bytes"] for a in node.json("show", app.pid)["allocations"]]


def moves(node, app):
    """Pauses, looks where the bytes are, and resumes."""
    node.expect(0, "pause", app.pid)
    places = {a["place"] for a in node.json("show", app.pid)["allocations"]}
    harness.equal(places, {"host"}, "where the bytes are")
    node.expect(0, "resume", app.pid)


def by_stepper(node, door):
    app = node.stepper("--door", door, "--buffers", 5, "--bytes", "64M,1,4K,3M,40M")
    found = listed(node, app)
    harness.equal((len(found), sum(found), found.count(SIZE)), (5, app.bytes, 1), f"counted through {door}")
    device = node.process(app.pid)["devices"][0]
    harness.equal(device["requested_bytes"], app.bytes, f"what ps says of {door}")
    app.step()
    moves(node, app)
    app.step()
    app.finish()


def by_ctypes(node):
    app = node.start(sys.executable, CTYPES)
    harness.equal(app.line(), f"ready {SIZE}", "first line of the program")
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")
    harness.equal(listed(node, app), [SIZE, SIZE], "counted through ctypes")
    app.ask_step()
    before = app.line()
    moves(node, app)
    app.ask_step()
    harness.equal(app.line(), before, "what was computed again")


def run(node):
    node.start_daemon()
    for door in ("linked", "dlopen", "getproc1", "getproc"):
        by_stepper(node, door)
        print(f"{door}: ok")
    by_ctypes(node)
    print("ctypes: ok")


harness.scenario(run)
