"""What a pause cannot move, here memory of a stream-ordered pool, is neither touched nor counted as released:
the answer shows it as residue."""

import harness

PROGRAM = harness.TREE / "tests/apps/pooled.py"
SIZE, POOLED = 5 << 20, 256 << 20  # as the program has them


def run(node):
    node.start_daemon()
    app = node.start("python3", PROGRAM)
    harness.equal(app.line(), "ready", "first line of the program")
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")
    for policy in ("host", "disk"):
        before = node.gpu_free()
        done = node.json("pause", app.pid, "--policy", policy)["results"][0]
        freed = node.gpu_free() - before
        harness.holds(SIZE <= done["released_bytes"] < POOLED, f"released bytes: {done}")
        harness.holds(SIZE <= freed < POOLED, f"{freed} bytes became free")
        if done["residue_bytes"] is None:
            raise harness.Skip("the driver does not say what each process holds here")
        harness.holds(done["residue_bytes"] >= POOLED, f"residue bytes: {done}")
        node.expect(0, "resume", app.pid)
        app.ask_step()
        harness.equal(app.line(), "bytes right", "the program's check")
    app.process.stdin.close()
    harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code of the program")


harness.scenario(run)
