"""Calls at the edges of the driver API answer as they do without the shim: codes, out-parameters and the
state left behind, but for the differences listed in docs/semantics.md, which all occur. On a card it
also says where the simulated driver answers otherwise than the real one."""

import edge_differences
import harness


def run(node):
    program = harness.BUILD / "bin/edge_calls"
    environment = edge_differences.plain(node.env)
    bare = edge_differences.Run(program, environment)
    parked = edge_differences.Run(program, node.env, prefix=[harness.BUILD / "bin/parkade", "run", "--"])
    if harness.ON_CARD:
        simulated = edge_differences.simulated(program, environment)
        for name in bare.names:
            if simulated.lines[name] != bare.lines[name]:
                print(f"{name}\n  card {bare.lines[name]}\n  sim  {simulated.lines[name]}")
    allowed = edge_differences.read_differences("Differences of the driver API")
    print(edge_differences.report(bare, parked, allowed, least=120))


harness.scenario(run)
