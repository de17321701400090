"""Prints what Parkade costs and reaches beside the machine's limits, all from this one run: the cost of
hooked calls, and pause and resume GB/s by tier. A table for people, and with --json FILE the same as JSON.

Everything is interleaved (A B A B), and a figure is the median of its rounds with lowest and highest."""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

PROBE = harness.BUILD / "bin/probe"
WAYS = (("bare", False), ("hooked", True))
TURNS = 51  # of allocations
KEEP = {}  # figure name: its values, one a round


def keep(name, value):
    KEEP.setdefault(name, []).append(value)


def environment(node, preload):
    return dict(node.env, LD_PRELOAD=str(harness.SHIM)) if preload else dict(node.env)


def probe(node, *words, preload=False, libraries=None):
    env = environment(node, preload)
    if libraries:
        env["LD_LIBRARY_PATH"] = str(libraries)
    done = subprocess.run([str(PROBE), *map(str, words)], env=env, capture_output=True, text=True, check=False)
    harness.equal(done.returncode, 0, f"exit code of probe {words}: {done.stderr.strip()}")
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}


def measure_calls(node):
    for label, preload in WAYS:
        for name, value in probe(node, "calls", preload=preload).items():
            keep(f"{name} {label}", value)
        for name, value in probe(node, "idle", preload=preload, libraries=harness.BUILD / "idle").items():
            keep(f"{name} {label}", value)


def measure_allocations(node, size):
    """Turn by turn within milliseconds: a GPU's clocks change between one second and the next, and these calls with them."""
    probes = {}
    for label, preload in WAYS:
        command = [PROBE, "allocations", str(size)]
        probes[label] = subprocess.Popen(
            command, env=environment(node, preload), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
    name = f"{size >> 20}m" if size >> 20 else f"{size >> 10}k"
    for turn in range(TURNS + 1):
        seen = {}
        for label, process in probes.items():
            process.stdin.write("\n")
            seen[label] = dict(zip(("alloc", "free"), map(float, process.stdout.readline().split())))
        for call in ("alloc", "free") if turn else ():  # the first turn makes the slabs
            for label, values in seen.items():
                keep(f"{call}_{name}_ns {label}", values[call])
            keep(f"{call}_{name} hooked/bare", seen["hooked"][call] / seen["bare"][call])
    for process in probes.values():
        process.stdin.close()
        harness.equal(process.wait(harness.PATIENCE), 0, "exit code of probe allocations")


def measure_limits(node, size):
    for name, value in probe(node, "link", size).items():
        keep(name, value)
    for name, value in probe(node, "disk", node.scratch, size).items():
        keep(name, value)


def cpu_seconds(app):
    """Of all its threads, those that have ended included."""
    fields = pathlib.Path(f"/proc/{app.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_pause(node, app, policy):
    """One pause and resume; the program's bytes are verified by its next step."""
    before = cpu_seconds(app)
    paused = node.json("pause", app.pid, "--policy", policy)["results"][0]
    moved = paused[f"{policy}_bytes"]
    harness.equal(moved, paused["released_bytes"], f"bytes that a pause to {policy} put there")
    keep(f"pause_{policy}_core_s_per_100gib", (cpu_seconds(app) - before) / moved * (100 << 30))
    resumed = node.json("resume", app.pid)["results"][0]
    keep(f"pause_{policy}_gbps", moved / paused["total_seconds"] / 1e9)
    keep(f"resume_{policy}_gbps", moved / resumed["total_seconds"] / 1e9)


def row(name, values, limit=None):
    middle = statistics.median(values)
    share = f"{middle / statistics.median(limit):7.0%}" if limit else " " * 7
    return f"{name:28} {middle:12.2f} {min(values):12.2f} {max(values):12.2f} {share}"


LIMITS = {
    "pause_host_gbps": "device_to_host_gbps",
    "resume_host_gbps": "host_to_device_gbps",
    "pause_disk_gbps": "disk_write_gbps",
    "resume_disk_gbps": "disk_read_gbps",
}


def print_table(machine):
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(f"{'figure':28} {'median':>12} {'lowest':>12} {'highest':>12} {'of limit':>7}")
    for name, values in KEEP.items():
        limit = LIMITS.get(name)
        print(row(name, values, limit and KEEP[limit]))


def main(node):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bytes", default="16G" if harness.ON_CARD else "512M", help="of the paused program")
    parser.add_argument("--json", help="also write the figures here")
    options = parser.parse_args()

    node.start_daemon()
    for size in (4 << 10, 2 << 20, 20 << 20, 512 << 20):
        measure_allocations(node, size)
    app = node.stepper("--buffers", 8, "--bytes", eighth(options.bytes))
    for _ in range(options.rounds):
        measure_calls(node)
        measure_limits(node, 1 << 30 if harness.ON_CARD else 256 << 20)
        measure_pause(node, app, "host")
        measure_pause(node, app, "disk")
        app.step()
    app.finish()

    machine = {
        "gpu": "card" if harness.ON_CARD else "simulated (its figures say nothing about a card)",
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "rounds": options.rounds,
        "paused": options.bytes,
    }
    print_table(machine)
    if options.json:
        figures = {n: {"median": statistics.median(v), "values": v} for n, v in KEEP.items()}
        pathlib.Path(options.json).write_text(json.dumps({"machine": machine, "figures": figures}, indent=2) + "\n")


def eighth(size):
    """"16G" as the size of each of eight buffers."""
    number, unit = int(size[:-1]), "KMG".index(size[-1])
    return str((number << 10 * (unit + 1)) // 8)


harness.scenario(main, gpu_bytes="4G")
