"""Ranks that pause to one disk at once, and resume from it, each get their share of it: the rate of each is within a
tenth of the mean of all. One on each GPU, two where there is one GPU. Runs on the simulated GPU too, with less, where
rates are printed and only the bytes are looked at."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

COUNT, EACH = (8, 512 << 20) if harness.ON_CARD else (4, 16 << 20)
ROUNDS = 3
TOLERANCE = 0.10


def rates(node, pids, verb, *options):
    """GB/s of each rank."""
    results = node.json(verb, *pids, *options)["results"]
    harness.equal(sorted(result["pid"] for result in results), sorted(pids), "who moved")
    for result in results:
        harness.holds(result["disk_bytes"] >= COUNT * EACH, f"bytes to or from disk: {result}")
    return [result["disk_bytes"] / result["move_seconds"] / 1e9 for result in results]


def run(node):
    node.start_daemon()
    gpus = len(node.json("gpus")["gpus"])
    apps = [
        node.verifier("--device", rank % gpus, "--buffers", COUNT, "--bytes", EACH, env={"PARKADE_ELISION": "off"})
        for rank in range(max(2, gpus))
    ]
    pids = [app.pid for app in apps]
    for _ in range(ROUNDS):
        for verb, options in (("pause", ("--policy", "disk")), ("resume", ())):
            found = rates(node, pids, verb, *options)
            mean = sum(found) / len(found)
            print(f"{verb}: {', '.join(f'{rate:.2f}' for rate in found)} GB/s, {sum(found):.2f} together", flush=True)
            if harness.ON_CARD:
                harness.holds(all(abs(rate - mean) <= TOLERANCE * mean for rate in found), f"{verb}: rates {found}")
        for app in apps:
            app.step()
    for app in apps:
        app.finish()


harness.scenario(run)
