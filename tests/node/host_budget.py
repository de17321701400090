"""Eight programs and a budget for five: under `auto` five backups' worth goes to host memory and the rest to
disk, under `host` the pause is refused and all run on."""

import harness

MIB = 1 << 20
RANKS, EACH = 8, 10 * MIB
BUDGET = 50 * MIB
RESOURCES = 5


def run(node):
    node.start_daemon("--host-budget", "50M")
    apps = [node.stepper("--buffers", 1, "--bytes", str(EACH)) for _ in range(RANKS)]
    for app in apps:
        app.step()
    done = node.expect(RESOURCES, "pause", "--all", "--policy", "host")
    harness.holds("HOST_MEMORY" in done.err and "the budget of the node is 50.0 MiB" in done.err, f"the error: {done.err.strip()}")
    harness.equal([p["state"] for p in node.processes()], ["running"] * RANKS, "states after the refusal")
    results = node.json("pause", "--all", "--policy", "auto")["results"]
    host = sum(r["host_bytes"] for r in results)
    harness.equal(host, BUDGET, "bytes on the host")
    harness.equal(host + sum(r["disk_bytes"] for r in results), RANKS * EACH, "bytes somewhere")
    pools = lambda: sum(p["host_pool_bytes"] for p in node.processes())
    held = pools()
    node.expect(0, "resume", "--all")
    for app in apps:
        app.step()
    # What the stages to disk had pinned may hold backups now; nothing is pinned beyond it.
    node.expect(0, "pause", "--all", "--policy", "auto")
    harness.holds(pools() <= held, f"{pools()} bytes pinned after {held}")
    node.expect(0, "resume", "--all")
    for app in apps:
        app.step()
    for app in apps:
        app.finish()


harness.scenario(run)
