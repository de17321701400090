"""Says where the milliseconds of a pause to host and of its resume go, for one layout of the program's memory after the
other: the median of each step that daemon and library log at level debug, beside the machine's plain pinned copy.

  phases.py [--rounds N] [--layout COUNTxSIZE ...]    such as 64x512M 410x20M"""

import argparse
import pathlib
import re
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

PROBE = harness.BUILD / "bin/probe"
UNITS = {"K": 10, "M": 20, "G": 30}
LAYOUTS = ["8x1G", "64x512M", "410x20M", "4096x2M", "1x8G"] if harness.ON_CARD else ["8x16M", "20x2M"]
LINE = re.compile(r"debug: ([^:]+): ([\d.]+) ms = (.*)")


def layout(text):
    count, size = text.split("x")
    return int(count), int(size[:-1]) << UNITS[size[-1]]


class Steps:
    """The steps that stand in a log, each with its values, one a round."""

    def __init__(self, log):
        self._log, self._read, self.values = pathlib.Path(log), 0, {}

    def look(self, cold):
        text = self._log.read_text(errors="replace")
        fresh, self._read = text[self._read :], len(text)
        for name, total, steps in LINE.findall(fresh):
            if cold:
                name = f"cold: {name}"
            self.values.setdefault((name, "all"), []).append(float(total))
            for step in steps.split(" + "):
                label, _, milliseconds = step.rpartition(" ")
                self.values.setdefault((name, label), []).append(float(milliseconds))

    def show(self):
        line = {}
        for (name, step), values in self.values.items():
            line.setdefault(name, []).append(f"{step} {statistics.median(values):.2f}")
        for name, steps in line.items():
            print(f"    {name:18} {', '.join(steps)}")


def limits(node):
    command = [PROBE, "link", str(1 << 30 if harness.ON_CARD else 1 << 26)]
    done = subprocess.run(command, env=node.env, input="out\nin\n", capture_output=True, text=True, check=True)
    return tuple(map(float, done.stdout.split()))


def measure(node, text, rounds):
    count, size = layout(text)
    app = node.verifier("--buffers", count, "--bytes", size, env={"PARKADE_LOG": "debug"})
    logs = [Steps(node.daemon_log), Steps(app.log)]
    pauses, resumes, ratios = [], [], []
    for turn in range(rounds + 1):
        out, back = limits(node)
        paused = node.json("pause", app.pid, "--elision", "off")["results"][0]
        resumed = node.json("resume", app.pid)["results"][0]
        app.step()
        for log in logs:
            log.look(cold=turn == 0)  # the first grows the pool
        moved = paused["host_bytes"]
        harness.equal(moved, resumed["host_bytes"], "bytes that came back")
        speeds = [moved / result["total_seconds"] / 1e9 for result in (paused, resumed)]
        if turn == 0:
            print(f"{text}: {moved / 1e9:.2f} GB; cold {speeds[0]:.1f} GB/s out")
            continue
        pauses.append(speeds[0])
        resumes.append(speeds[1])
        ratios.append((speeds[0] / out, speeds[1] / back))
    for name, values, ratio in (("out", pauses, [r[0] for r in ratios]), ("in", resumes, [r[1] for r in ratios])):
        print(
            f"  {name:3} {statistics.median(values):6.2f} GB/s ({min(values):.2f} to {max(values):.2f}),"
            f" {statistics.median(ratio):6.1%} of the pinned copy ({min(ratio):.1%} to {max(ratio):.1%})"
        )
    for log in logs:
        log.show()
    app.finish()


def main(node):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layout", nargs="+", default=LAYOUTS)
    options = parser.parse_args()
    node.start_daemon("--log-level", "debug")
    for text in options.layout:
        measure(node, text, options.rounds)


harness.scenario(main)
