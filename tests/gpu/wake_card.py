"""Two unmodified programs that each need 57 % of the card share it in turns, with no orchestrator, where host memory
holds 71 % of it: 80 GiB each of 140 with a budget of 100. Both end with right results. Prints what each turn took beside
the limits of its copies, as the same run measures them. Runs on the simulated GPU too, where only the bytes are looked at."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

GIB = 1 << 30
# Bytes that host memory has no room for go to a disk and back in each turn, which takes its time.
STEPS = 1 if harness.ON_CARD else 2
QUANTUM_S = 2 if harness.ON_CARD else 1


def sizes(node):
    """Bytes of one buffer of eight a program, and the host budget, by what the card has free."""
    free = node.gpu_free()
    return free * 57 // 100 // 8 >> 21 << 21, free * 71 // 100


def copy_limits(node, each):
    """GB/s out and in of one of them alone, to and from pinned memory that is there already."""
    app = node.verifier("--buffers", 1, "--bytes", each, env={"PARKADE_ELISION": "off"})
    rates = []
    for _ in range(2):  # the first pins its memory
        (out,) = node.json("pause", app.pid, "--policy", "host")["results"]
        (back,) = node.json("resume", app.pid)["results"]
        rates = [result["host_bytes"] / max(result["move_seconds"], 1e-9) / 1e9 for result in (out, back)]
    app.finish()
    return rates


def start(node, each):
    return node.start(harness.BUILD / "bin/verifier", "--buffers", 8, "--bytes", each, env={"PARKADE_WAKE": "1", "PARKADE_ELISION": "off"})


def turns(node):
    return [o for o in node.json("ops", "--ended")["operations"] if (o["request_id"] or "").startswith("wake-")]


def show(operations, limits):
    for operation in operations:
        out = operation["kind"] == "pause"
        for result in operation["results"]:
            host, disk, seconds = result["host_bytes"], result["disk_bytes"], result["move_seconds"]
            least = (host + disk) / limits[0 if out else 1] / 1e9
            print(
                f"{operation['kind']:6} {result['pid']}: {host / GIB:6.2f} GiB host, {disk / GIB:6.2f} GiB disk in {seconds:6.2f} s; "
                f"the link alone takes {least:6.2f} s"
            )


def run(node):
    each, budget = sizes(node)
    node.start_daemon()
    limits = copy_limits(node, each)
    print(f"copies of {each / GIB:.2f} GiB: {limits[0]:.1f} GB/s out, {limits[1]:.1f} GB/s in")
    node.stop_daemon()
    node.start_daemon("--host-budget", budget, env={"PARKADED_TURN_QUANTUM": str(QUANTUM_S)})
    print(f"two of {8 * each / GIB:.2f} GiB each on {node.gpu_free() / GIB:.2f} GiB, host budget {budget / GIB:.2f} GiB")
    apps = [start(node, each) for _ in range(2)]
    for app in apps:
        app.ready(120)
    for _ in range(STEPS):
        for app in apps:
            begin = time.monotonic()
            app.step(120)
            print(f"a step of {app.pid} with its turn: {time.monotonic() - begin:.2f} s")
    done = turns(node)
    show(done, limits)
    harness.holds(len(done) > 2 * STEPS, f"turns: {done}")
    harness.holds(all(o["state"] == "done" for o in done), f"none of them failed: {done}")
    for app in apps:
        app.finish()


harness.scenario(run, gpu_bytes="256M")
