"""Prints what Parkade costs and reaches beside the machine's limits, all from this one run: a table with the
columns limit, ours, ratio and peer, and with --json FILE the same as JSON.

Limits and ours are interleaved (A B A B). A figure is the median of its rounds, with lowest and highest; a
ratio is the median of the rounds' own."""

import argparse
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402
import machine  # noqa: E402
from calls import calls  # noqa: E402
from figures import Figures  # noqa: E402
from handoffs import handoffs, tight  # noqa: E402
from prewarmed import prewarmed  # noqa: E402
from stores import stores  # noqa: E402
from suites import SUITES  # noqa: E402

ALL = {"calls": calls, **SUITES, "handoff": handoffs, "handoff-tight": tight, "prewarmed": prewarmed, "stores": stores}
DEFAULT = ["host", "disk"]


class Bench:
    """What a suite gets: the node, how often, and where figures go."""

    def __init__(self, node, options):
        self.node, self.options = node, options
        self.rounds, self.chunk = options.rounds, options.chunk
        self._figures = Figures()

    def add(self, suite, name, unit="GB/s", **values):
        self._figures.add(suite, name, unit, **values)

    def show(self, json_file):
        facts = machine.facts(self.node)
        print(json.dumps(facts))
        self._figures.print_table()
        if json_file:
            self._figures.write_json(json_file, facts)


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def size(text):
    match = re.fullmatch(r"(\d+)([KMG])", text)
    if not match or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 256M")
    return int(match[1]) << 10 * ("KMG".index(match[2]) + 1)


def suites(text):
    unknown = [name for name in text.split(",") if name not in ALL]
    if unknown:
        raise argparse.ArgumentTypeError(f"no suite {', '.join(unknown)}; there are {', '.join(ALL)}")
    return text.split(",")


def library(text):
    if not pathlib.Path(text).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return pathlib.Path(text).absolute()


def new_file(text):
    if not pathlib.Path(text).absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"no folder for {text}")
    return text


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=suites, default=DEFAULT, help=f"of {', '.join(ALL)}; several with commas (default: {','.join(DEFAULT)})")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--chunk", type=size, default=256 << 20, help="host memory for staging, in the disk suites")
    parser.add_argument("--elements", type=positive, help="suite stores: parameters (default: so that a step in fp32 moves 6 GB)")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="also write the figures here")
    parser.add_argument("--peer-tms", type=library, metavar="LIBRARY", help="suite peer: torch_memory_saver's preload library (needs PyTorch)")
    parser.add_argument("--peer-checkpoint", action="store_true", help="suite peer: the driver's checkpoint call")
    options = parser.parse_args()
    named = options.peer_tms or options.peer_checkpoint
    if "peer" in options.suite and not named:
        parser.error("suite peer needs --peer-tms LIBRARY or --peer-checkpoint")
    if named and "peer" not in options.suite:
        parser.error("a peer is measured in the suite peer: add it to --suite")
    return options


def main(node):
    # Gigabytes of scratch must not stay behind one that is killed. Its input ends with us.
    guard = [sys.executable, pathlib.Path(__file__).with_name("guard.py"), node.runtime, node.root]
    subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True)
    bench = Bench(node, OPTIONS)
    node.start_daemon()
    for suite in OPTIONS.suite:
        ALL[suite](bench)
    bench.show(OPTIONS.json)


OPTIONS = read_options()
harness.scenario(main, gpu_bytes="4G")
