"""A tensor-parallel engine, a rank on each GPU, whose CUDA graphs hold the sums over ranks, is paused as a group
between its steps and at random instants: what it computes equals a run without pauses, bit for bit. The sums are
NCCL's, with its memory by cuMem and not, with its buffers registered by the graph and not; or those of a kernel that
reads the other ranks' memory by CUDA IPC. Needs two GPUs and CuPy.

--held N and --random N say how many pauses of each kind, --seed N takes other instants, --cases picks some."""

import ranks
from ranks import harness

CASES = {"ipc": ("ipc", {})} | {
    f"nccl-cumem{cumem}-{'registered' if registered else 'plain'}": (
        "nccl", {"NCCL_CUMEM_ENABLE": str(cumem), "NCCL_GRAPH_REGISTER": str(registered)})
    for cumem in (0, 1)
    for registered in (0, 1)
}


def run(node):
    options = ranks.options(__doc__, CASES)
    count = ranks.gpus("torch", "cupy")
    print(f"seed {options.seed}", flush=True)
    node.start_daemon()
    found = {}
    for label in options.cases:
        kind, env = CASES[label]
        found[label] = ranks.paused(node, count, options, label, "engine_ranks.py", "--kind", kind, env=env)
    for kind in ("ipc", "nccl"):
        mine = {label: results for label, results in found.items() if CASES[label][0] == kind}
        if not mine:
            continue
        longest = max(map(ranks.last_step, mine.values()))
        # One step beyond: the line of a step is said at its beginning.
        wanted = ranks.Job(node, count, "engine_ranks.py", "--kind", kind, "--limit", longest + 1, park=False).results()
        for label, results in mine.items():
            ranks.check(results, wanted, label)


harness.scenario(run)
