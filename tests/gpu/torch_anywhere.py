"""A PyTorch training loop with several non-blocking streams, CUDA graphs and captures under way is paused at
200 random instants; its losses, weights and final state equal those of a run without pauses, bit for bit.

--pauses N makes it so many, --seed N takes other instants."""

import argparse
import importlib.util
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("train_graphs.py")
START = 300.0  # importing PyTorch from a cold disk
LONGEST_RUN = 0.1  # seconds between a resume and the next pause


def start(node, *options, park):
    app = node.start(sys.executable, PROGRAM, *options, park=park)
    app.until("ready", START)
    return app


def results(app):
    """Waits for the program's end; what must not change."""
    app.until("state", START)
    harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code of the training")
    return [line for line in app.said if line.startswith(("step", "state"))]


def captures(app):
    """When the program was capturing, as pairs of CLOCK_MONOTONIC seconds."""
    return [tuple(map(float, line.split()[1:])) for line in app.said if line.startswith("capture")]


def pause_somewhere(node, app, policy, instants):
    """One pause and resume. Returns when the daemon was asked for the pause, to a few milliseconds."""
    time.sleep(instants.uniform(0, LONGEST_RUN))  # a random instant, not a wait for anything
    done = node.json("pause", app.pid, "--policy", policy)["results"][0]
    asked = time.monotonic() - done["total_seconds"]
    harness.equal(node.state(app.pid), "paused", "state after the pause")
    node.expect(0, "resume", app.pid)
    return asked


def run(node):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pauses", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    if not harness.ON_CARD:
        raise harness.Skip("PyTorch needs a card")
    if importlib.util.find_spec("torch") is None:
        raise harness.Skip(f"{sys.executable} has no PyTorch")
    print(f"seed {options.seed}", flush=True)
    instants = random.Random(options.seed)

    node.start_daemon()
    app = start(node, park=True)
    app.until("step")
    asked = [pause_somewhere(node, app, "disk" if n % 10 == 9 else "host", instants) for n in range(options.pauses)]
    app.process.terminate()
    found = results(app)
    in_capture = sum(any(begin <= at <= end for begin, end in captures(app)) for at in asked)
    print(f"{options.pauses} pauses over {len(found) - 1} steps and {len(captures(app))} captures, {in_capture} during one")
    harness.holds(in_capture, "no pause came during a capture")

    wanted = results(start(node, "--steps", len(found) - 1, park=False))
    for line, must_be in zip(found, wanted):
        harness.equal(line, must_be, "what the paused training printed")
    harness.equal(len(found), len(wanted), "lines of the paused training")
    print(found[-1])


harness.scenario(run)
