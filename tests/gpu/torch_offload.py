"""Training by FSDP2 on one GPU, whose weights, gradients and optimizer live in host memory (CPUOffloadPolicy) and come to the
GPU layer by layer, is paused between its steps and at random instants: losses, weights and optimizer state equal those of a
run without pauses, bit for bit. Prints what `show` says of the other offloader.

--held N and --random N say how many pauses of each kind, --seed N takes other instants."""

import ranks
from ranks import harness

CASES = ("offload",)


def run(node):
    options = ranks.options(__doc__, CASES, each=30)
    ranks.gpus("torch", least=1)
    print(f"seed {options.seed}", flush=True)
    node.start_daemon()
    for label in options.cases:
        found = ranks.paused(node, 1, options, label, "train_ranks.py", "--kind", label, warnings=True)
        end = ranks.last_step(found)
        job = ranks.Job(node, 1, "train_ranks.py", "--kind", label, "--limit", end, "--hash-at", end, park=False)
        ranks.check(found, job.results(), label)


harness.scenario(run)
