"""64 processes with 10,000 allocations each: the list of processes takes under 20 ms, one process with all of its
allocations under 50 ms, and the daemon has under 200 MiB.

usage: scale.py [--processes COUNT] [--allocations COUNT]"""

import argparse
import statistics
import time

import harness
import python_package

PROGRAM = harness.TREE / "tests/apps/allocating.py"
CALLS = 21
LIST_S, GET_S, DAEMON_BYTES = 0.020, 0.050, 200 << 20
LONG = 250.0


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--allocations", type=int, default=10_000)
    return parser.parse_args()


def median_s(call):
    seconds = []
    for _ in range(CALLS):
        begin = time.monotonic()
        call()
        seconds.append(time.monotonic() - begin)
    return statistics.median(seconds)


def daemon_bytes(node):
    with open(f"/proc/{node.daemon.pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS:"))


def run(node):
    parkade = python_package.load()
    wanted = options()
    node.start_daemon()
    client = parkade.Client(node.runtime)
    apps = [node.start("python3", PROGRAM) for _ in range(wanted.processes)]
    for app in apps:
        harness.equal(app.line(LONG), "ready", "first line of the program")
    for app in apps:
        app.say(f"small {wanted.allocations} 4096")
    for app in apps:
        app.line(LONG)
    listed = harness.wait_for(
        "all are listed with all of their allocations",
        lambda: (found := client.list_processes()) and len(found) == len(apps)
        and all(process.allocation_count >= wanted.allocations for process in found) and found)
    list_s = median_s(client.list_processes)
    pid = listed[0].pid
    harness.equal(len(client.get_process(pid).allocations), listed[0].allocation_count, "allocations of one process")
    get_s = median_s(lambda: client.get_process(pid))
    bytes_ = daemon_bytes(node)
    print(f"a list {list_s * 1e3:.1f} ms, a process {get_s * 1e3:.1f} ms, the daemon {bytes_ >> 20} MiB")
    harness.holds(list_s < LIST_S, f"a list of {len(apps)} processes takes {list_s * 1e3:.1f} ms")
    harness.holds(get_s < GET_S, f"a process with {wanted.allocations} allocations takes {get_s * 1e3:.1f} ms")
    harness.holds(bytes_ < DAEMON_BYTES, f"the daemon has {bytes_} bytes")


harness.scenario(run, gpu_bytes="16G")
