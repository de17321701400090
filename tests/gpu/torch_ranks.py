"""Training over NCCL, a rank on each GPU, by DistributedDataParallel and by FSDP2, is paused as a group between its
steps and at random instants, ranks stopped inside collectives among them: losses, weights and optimizer state equal
those of a run without pauses, bit for bit. A deep pause is refused and is a plain one. NCCL with its memory by cuMem
and not, with PyTorch's segments registered and not. Needs two GPUs.

--held N and --random N say how many pauses of each kind, --seed N takes other instants, --cases picks some."""

import ranks
from ranks import harness

CASES = {
    f"{kind}-cumem{cumem}-{'registered' if registered else 'plain'}": (kind, cumem, registered)
    for kind in ("ddp", "fsdp")
    for cumem in (0, 1)
    for registered in (0, 1)
}


def environment(cumem, registered):
    return {
        "NCCL_CUMEM_ENABLE": str(cumem),
        "NCCL_LOCAL_REGISTER": str(registered),
        "NCCL_GRAPH_REGISTER": str(registered),
        "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": str(registered),
    }


def run(node):
    options = ranks.options(__doc__, CASES)
    count = ranks.gpus("torch")
    print(f"seed {options.seed}", flush=True)
    node.start_daemon()
    found = {}
    for label in options.cases:
        kind, *settings = CASES[label]
        env = environment(*settings)
        found[label] = ranks.paused(node, count, options, label, "train_ranks.py", "--kind", kind, env=env, nccl=True)
    for kind in ("ddp", "fsdp"):
        mine = {label: results for label, results in found.items() if CASES[label][0] == kind}
        if not mine:
            continue
        ends = {ranks.last_step(results) for results in mine.values()}
        job = ranks.Job(
            node, count, "train_ranks.py", "--kind", kind, "--limit", max(ends), "--hash-at", ",".join(map(str, ends)), park=False)
        wanted = job.results()
        for label, results in mine.items():
            ranks.check(results, wanted, label)


harness.scenario(run)
