"""Allocations made through each of the three routes to the driver are counted once, and move."""

import harness


def run(node):
    node.start_daemon()
    for door in ("linked", "dlopen", "getproc"):
        app = node.stepper("--door", door, "--buffers", 7, "--bytes", "1,4K,3M,40M")
        shown = node.json("show", app.pid)
        harness.equal(len(shown["allocations"]), 7, f"allocations counted through {door}")
        total = sum(a["bytes"] for a in shown["allocations"])
        harness.equal(total, app.bytes, f"bytes counted through {door}")
        app.step()
        node.expect(0, "pause", app.pid)
        places = {a["place"] for a in node.json("show", app.pid)["allocations"]}
        harness.equal(places, {"host"}, f"where the bytes are that came through {door}")
        node.expect(0, "resume", app.pid)
        app.step()
        app.finish()


harness.scenario(run)
