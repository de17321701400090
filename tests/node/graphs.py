"""A CUDA graph with memory of ours in kernel arguments, in a copy and in a child graph replays bit-exact after each pause and
resume, to host and to disk, without being built again."""

import sys

import harness

PROGRAM = harness.TREE / "tests/apps/graphs.py"
BYTES = 43 << 20  # of both buffers


def run(node):
    node.env["PARKADE_ELISION"] = "off"  # every byte is to move, also one that has not changed
    node.start_daemon()
    app = node.start(sys.executable, PROGRAM)
    harness.equal(app.line(), "ready", "first line of the program")
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")
    replays = 0

    def replay():
        nonlocal replays
        app.ask_step()
        harness.equal(app.line(), f"replay {replays} right", "the replay")
        replays += 1

    replay()
    for policy in ("host", "disk", "host"):
        done = node.json("pause", app.pid, "--policy", policy)["results"][0]
        harness.holds(done["host_bytes"] + done["disk_bytes"] >= BYTES, f"what moved: {done}")
        harness.equal(done["kept_bytes"], 0, "kept bytes")
        # A replay that is asked for now waits at the gate.
        app.ask_step()
        node.expect(0, "resume", app.pid)
        harness.equal(app.line(), f"replay {replays} right", "the replay that waited")
        replays += 1
        replay()


harness.scenario(run)
