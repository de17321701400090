"""What a pause cannot move is counted by kind and shown, with what would avoid it; what pools and graphs keep unused goes
back to the driver, and managed memory to the host. None of it is touched or counted as released."""

import harness

PROGRAM = harness.TREE / "tests/apps/foreign.py"
PLAIN, POOLED, MANAGED, GRAPH, PINNED = 5 << 20, 256 << 20, 96 << 20, 128 << 20, 48 << 20


def run(node):
    node.start_daemon()
    app = node.start("python3", PROGRAM)
    harness.equal(app.line(), "ready", "first line of the program")
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")

    def ask(wanted, *words):
        app.say(" ".join(map(str, words)))
        harness.equal(app.line(), wanted, f"the answer to {words}")

    def process():
        return node.json("show", app.pid)["process"]

    def foreign():
        return {f["kind"]: f["bytes"] for f in process()["devices"][0]["foreign"]}

    def pause(policy="host"):
        """The result, and how much more the driver has free."""
        before = node.gpu_free()
        return node.json("pause", app.pid, "--policy", policy)["results"][0], node.gpu_free() - before

    def resume():
        node.expect(0, "resume", app.pid)
        ask("right", "check")

    def is_about(found, wanted, what):
        harness.holds(abs(found - wanted) <= harness.DRIVER_OWN_BYTES, f"{what}: {found}, must be {wanted}")

    # A pool that is in use stays.
    ask("made", "plain", PLAIN)
    harness.equal(foreign(), {}, "foreign memory of a program that has none")
    ask("made", "pool", POOLED)
    is_about(foreign()["pool"], POOLED, "what the pool holds")
    for policy in ("host", "disk"):
        done, freed = pause(policy)
        harness.holds(PLAIN <= done["released_bytes"] < POOLED, f"released bytes: {done}")
        harness.holds(PLAIN <= freed < POOLED, f"{freed} bytes became free")
        is_about(foreign()["pool"], POOLED, "what the pool holds while paused")
        if done["residue_bytes"] is None:
            print("the driver does not say what each process holds here")
        else:
            harness.holds(done["residue_bytes"] >= POOLED, f"residue bytes: {done}")
        resume()
    shown = node.expect(0, "show", app.pid).out
    harness.holds("cudaMallocAsync" in shown and "backend:native" in shown, f"no advice against pools: {shown}")

    # What is freed stays with the pool until a pause trims it.
    ask("freed", "unpool")
    done, freed = pause()
    harness.holds(freed >= PLAIN + POOLED - harness.DRIVER_OWN_BYTES, f"{freed} bytes became free of an unused pool")
    harness.holds("pool" not in foreign(), f"foreign memory after a trim: {foreign()}")
    resume()

    # Managed memory goes to the host and keeps its bytes.
    ask("made", "managed", MANAGED)
    harness.equal(foreign(), {"managed": MANAGED}, "managed memory")
    done, freed = pause()
    harness.holds(freed >= PLAIN + MANAGED - harness.DRIVER_OWN_BYTES, f"{freed} bytes became free of managed memory")
    harness.holds(done["released_bytes"] < MANAGED, f"managed memory is counted as released: {done}")
    harness.equal(process()["warnings"], [], "warnings")
    resume()

    # Memory nodes: in use they stay, then they are trimmed.
    ask("made", "graph", GRAPH)
    is_about(foreign().get("graph", 0), GRAPH, "what graphs hold after a launch")
    done, freed = pause()
    harness.holds(freed < GRAPH, f"{freed} bytes became free beside a graph")
    is_about(foreign()["graph"], GRAPH, "what graphs hold")
    resume()
    ask("destroyed", "ungraph")
    done, freed = pause()
    harness.holds(freed >= PLAIN + GRAPH - harness.DRIVER_OWN_BYTES, f"{freed} bytes became free after a graph")
    harness.holds("graph" not in foreign(), f"foreign memory after a trim: {foreign()}")
    resume()

    before = process()["pinned_bytes"]
    ask("made", "pin", PINNED)
    harness.equal(process()["pinned_bytes"] - before, PINNED, "pinned host memory")
    ask("freed", "unpin")
    harness.equal(process()["pinned_bytes"], before, "pinned host memory when freed")
    app.process.stdin.close()
    harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code of the program")


harness.scenario(run)
