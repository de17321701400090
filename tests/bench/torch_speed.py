"""Whether PyTorch computes as fast on Parkade's memory as on the driver's own: two processes, one bare and
one preloaded, do the same work by turns on an otherwise idle GPU. Needs a GPU and PyTorch."""

import argparse
import importlib.util
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

WORKER = pathlib.Path(__file__).with_name("torch_worker.py")
START = 300.0  # importing PyTorch from a cold disk
WORKS = ("gemm", "stream", "step")


def timed(worker, work):
    worker.say(work)
    return float(worker.until("took", START).split()[1])


def main(node):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=31)
    options = parser.parse_args()
    if not harness.ON_CARD or importlib.util.find_spec("torch") is None:
        raise harness.Skip("needs a GPU and PyTorch")

    node.start_daemon()
    workers = {"bare": node.start(sys.executable, WORKER, park=False), "hooked": node.start(sys.executable, WORKER)}
    for worker in workers.values():
        worker.until("ready", START)
    harness.equal([p["pid"] for p in node.processes()], [workers["hooked"].pid], "processes that are managed")

    print(f"{'work':8} {'bare, ms':>10} {'hooked, ms':>10} {'ratio of medians':>18} {'median ratio of pairs':>22}")
    for work in WORKS:
        seconds = {name: [] for name in workers}
        for turn in range(options.rounds):
            order = list(workers.items())
            for name, worker in order if turn % 2 == 0 else reversed(order):
                seconds[name].append(timed(worker, work))
        bare, hooked = (statistics.median(seconds[name]) for name in ("bare", "hooked"))
        pairs = statistics.median(h / b for b, h in zip(seconds["bare"], seconds["hooked"]))
        print(f"{work:8} {bare * 1e3:10.2f} {hooked * 1e3:10.2f} {hooked / bare:18.4f} {pairs:22.4f}")


harness.scenario(main)
