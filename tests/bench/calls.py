"""What hooked calls cost: the same calls in a bare and a preloaded process, by turns."""

import subprocess

import harness
from bed import PROBE, run_probe

WAYS = (("bare", False), ("hooked", True))
TURNS = 51  # of allocations
# Ours beside the bare call as its limit.
COLUMN = {"bare": "limit", "hooked": "ours"}


def calls(bench):
    for size in (4 << 10, 2 << 20, 20 << 20, 512 << 20):
        allocations(bench, size)
    for _ in range(bench.rounds):
        for words, libraries in (("calls", None), ("idle", harness.BUILD / "idle")):
            for label, preload in WAYS:
                for name, value in run_probe(bench.node, words, preload=preload, libraries=libraries).items():
                    bench.add("calls", name.removesuffix("_ns"), unit="ns", **{COLUMN[label]: value})


def allocations(bench, size):
    """Turn by turn within milliseconds: a GPU's clocks change between one second and the next, and these calls with them."""
    probes = {}
    for label, preload in WAYS:
        env = dict(bench.node.env, **({"LD_PRELOAD": str(harness.SHIM)} if preload else {}))
        probes[label] = subprocess.Popen(
            [PROBE, "allocations", str(size)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
    name = f"{size >> 20} MiB" if size >> 20 else f"{size >> 10} KiB"
    try:
        for turn in range(TURNS + 1):
            for label, process in probes.items():
                process.stdin.write("\n")
                for call, ns in zip(("allocate", "free"), map(float, process.stdout.readline().split())):
                    if turn:  # the first turn makes the slabs
                        bench.add("calls", f"{call} {name}", unit="ns", **{COLUMN[label]: ns})
        for process in probes.values():
            process.stdin.close()
            harness.equal(process.wait(harness.PATIENCE), 0, "exit code of probe allocations")
    finally:
        for process in probes.values():
            process.kill()
            process.wait()
