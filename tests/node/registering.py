"""Memory that a network card or NCCL has registered stays in HBM through a pause, and is said to be held; what is registered
while its bytes are out waits for them; once deregistered, all of it moves."""

import harness

PROGRAM = harness.TREE / "tests/apps/registering.py"
LIBRARY = harness.BUILD / "lib/libregistering_like.so"
MIB = 1 << 20
SIZES = (40, 60, 3)


def run(node):
    node.env["PARKADE_ELISION"] = "off"  # every byte is to move, also one that has not changed
    if not LIBRARY.exists():
        raise harness.Skip("the bundle has no stand-in for libibverbs and NCCL")
    node.start_daemon()
    app = node.start("python3", PROGRAM, LIBRARY, *SIZES)
    harness.equal(app.line(), "ready", "first line of the program")
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")

    def ask(wanted, *words):
        app.say(" ".join(map(str, words)))
        harness.equal(app.line(), wanted, f"the answer to {words}")

    def show():
        return node.json("show", app.pid)

    def held():
        allocations = show()["allocations"]
        return sorted(a["bytes"] // MIB for a in allocations if a["class"] == "held")

    def pause(policy):
        return node.json("pause", app.pid, "--policy", policy)["results"][0]

    def resume():
        node.expect(0, "resume", app.pid)

    ask("registered 0", "verbs", 0)
    ask("registered 1", "nccl", 1)
    harness.equal(held(), [40, 60], "sizes of what is held")
    said = " ".join(show()["process"]["warnings"])
    harness.holds("ibv_reg_mr" in said and "ncclCommRegister" in said, f"the reasons: {said}")
    done = pause("host")
    harness.equal(done["kept_bytes"], 100 * MIB, "bytes kept")
    harness.equal(done["host_bytes"], 3 * MIB, "bytes moved")

    # A registration of what is out waits at the gate.
    app.say("verbs 2")
    harness.wait_for("it waits at the gate", lambda: show()["process"]["gated_threads"] == 1)
    harness.equal(held(), [40, 60], "sizes of what is held")
    resume()
    harness.equal(app.line(), "registered 2", "its answer")
    harness.equal(held(), [3, 40, 60], "sizes of what is held")
    ask(f"right {sum(SIZES) * MIB}", "check")
    done = pause("host")
    harness.equal(done["host_bytes"], 0, "bytes moved when all is held")
    resume()

    ask("ended 0", "end", 0)
    ask("ended 2", "end", 2)
    ask("destroyed", "destroy")
    harness.equal(held(), [], "sizes of what is held")
    for policy in ("host", "disk"):
        done = pause(policy)
        harness.equal(done["kept_bytes"], 0, "bytes kept")
        harness.equal(done[f"{policy}_bytes"], sum(SIZES) * MIB, "bytes moved")
        resume()
        ask(f"right {sum(SIZES) * MIB}", "check")


harness.scenario(run)
