"""Calls at the edges of the driver API answer as they do without the shim: codes, out-parameters and the
state left behind, but for the differences listed in docs/semantics.md, which all occur. On a card it
also says where the simulated driver answers otherwise than the real one."""

import pathlib
import subprocess

import edge_differences
import harness


def survives_faults(program, environment, bare):
    """A case that takes its process or its context along costs no other case its line."""
    faults = pathlib.Path(environment["SIM_FAULTS"])
    faults.write_text("cuGraphCreate 3 kill\ncuCtxSynchronize 4 fail 700\n")
    done = subprocess.run(
        [program, "--from", "graph_fill_node"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    faults.unlink()
    harness.equal(done.returncode, 1, "what it ends with where a case was lost")
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    faulted = {name for name, said in lines.items() if said.endswith(" context=ILLEGAL_ADDRESS")}
    harness.holds("graph_replayed_after_its_memory_was_freed" in faulted, f"a lost context is said: {faulted}")
    expected = {name: bare.lines[name] for name in bare.names[bare.names.index("graph_fill_node") :]}
    expected["graph_copy_node"] = "LOST signal=9"
    for name in faulted:
        expected[name] += " context=ILLEGAL_ADDRESS"
    harness.equal(lines, expected, "the cases beside those that fault")


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
    else:
        survives_faults(program, environment, bare)
    allowed = edge_differences.read_differences("Differences of the driver API")
    print(edge_differences.report(bare, parked, allowed, least=400))


harness.scenario(run)
