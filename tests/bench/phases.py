"""Says where the milliseconds of a pause to host and of its resume go, for one layout of the program's memory after the
other: the median of each step that daemon and library log at level debug, beside the machine's plain pinned copy.

  phases.py [--rounds N] [--layout COUNTxSIZE ...] [--handoff]    such as 64x512M 410x20M

With --handoff two programs of that layout change places instead, beside copies both ways at once."""

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


def limits(node, *words):
    command = [PROBE, "link", str(1 << 30 if harness.ON_CARD else 1 << 26)]
    lines = "".join(f"{word}\n" for word in words)
    done = subprocess.run(command, env=node.env, input=lines, capture_output=True, text=True, check=True)
    return tuple(map(float, done.stdout.split()))


def show(way, speeds, ratios, limit):
    print(
        f"  {way:3} {statistics.median(speeds):6.2f} GB/s ({min(speeds):.2f} to {max(speeds):.2f}),"
        f" {statistics.median(ratios):6.1%} of {limit} ({min(ratios):.1%} to {max(ratios):.1%})"
    )


def measure(node, text, rounds):
    count, size = layout(text)
    app = node.verifier("--buffers", count, "--bytes", size, env={"PARKADE_LOG": "debug"})
    logs = [Steps(node.daemon_log), Steps(app.log)]
    pauses, resumes, ratios = [], [], []
    for turn in range(rounds + 1):
        out, back = limits(node, "out", "in")
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
    show("out", pauses, [r[0] for r in ratios], "the pinned copy")
    show("in", resumes, [r[1] for r in ratios], "the pinned copy")
    for log in logs:
        log.show()
    app.finish()


def measure_handoff(node, text, rounds):
    count, size = layout(text)
    options = ["--buffers", count, "--bytes", size]
    env = {"PARKADE_LOG": "debug", "PARKADE_ELISION": "off"}
    then = node.verifier(*options, env=env)
    node.expect(0, "pause", then.pid)
    now = node.verifier(*options, env=env)
    logs = [Steps(node.daemon_log), Steps(now.log), Steps(then.log)]
    speeds, ratios = [], []
    for turn in range(rounds + 2):
        (both,) = limits(node, "both")
        results = node.json("handoff", "--out", now.pid, "--in", then.pid)["results"]
        now, then = then, now
        now.step()
        for log in logs:
            log.look(cold=turn < 2)  # the first of each grows its pool
        if turn < 2:
            continue
        moved = sum(result["host_bytes"] for result in results)
        speeds.append(moved / max(result["total_seconds"] for result in results) / 1e9)
        ratios.append(speeds[-1] / both)
    print(f"{text}, handoff:")
    show("", speeds, ratios, "copies both ways")
    for log in logs:
        log.show()
    node.expect(0, "resume", then.pid)
    then.finish()
    now.finish()


def main(node):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layout", nargs="+", default=LAYOUTS)
    parser.add_argument("--handoff", action="store_true")
    options = parser.parse_args()
    node.start_daemon("--log-level", "debug")
    for text in options.layout:
        (measure_handoff if options.handoff else measure)(node, text, options.rounds)


harness.scenario(main)
