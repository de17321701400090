"""The daemon is killed at random instants of a long pause, again and again: within two seconds the next one
has the process running or paused, and after a resume every byte on the GPU is right.

On a card 10 GiB and 100 kills, on the simulated GPU less; --bytes N, --kills N and --policy change that."""

import argparse
import collections
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

GIB = 1 << 30
BUFFERS = 10
MAX_SECONDS = 2.0


def seconds_of(action):
    begin = time.monotonic()
    action()
    return time.monotonic() - begin


def kill_and_restart(node, app, instants, pause_seconds, policy):
    """Kills the daemon somewhere in a pause. Returns the state that the next one found, and after how long."""
    command = node.start_cli("pause", app.pid, "--policy", policy)
    time.sleep(instants.uniform(0, 1.2 * pause_seconds))  # a random instant, not a wait for anything
    node.kill_daemon()
    begin = time.monotonic()
    node.start_daemon()

    state = harness.wait_for(
        "the next daemon has it running or paused", lambda: node.settled(app.pid), MAX_SECONDS)
    took = time.monotonic() - begin
    harness.holds(took <= MAX_SECONDS, f"that took {took:.2f} s")
    command.wait(harness.PATIENCE)
    return state, took


def run(node):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=10 * GIB if harness.ON_CARD else GIB // 4)
    parser.add_argument("--kills", type=int, default=100 if harness.ON_CARD else 10)
    parser.add_argument("--policy", default="host", choices=("host", "disk"))
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    instants = random.Random(options.seed)
    node.start_daemon()
    app = node.verifier("--buffers", BUFFERS, "--bytes", options.bytes // BUFFERS)
    app.step()

    # The first pause pins its memory; the second is as long as those to come.
    for _ in range(2):
        pause_seconds = seconds_of(lambda: node.expect(0, "pause", app.pid, "--policy", options.policy))
        node.expect(0, "resume", app.pid)
    app.step()

    states, longest = collections.Counter(), 0.0
    for _ in range(options.kills):
        state, took = kill_and_restart(node, app, instants, pause_seconds, options.policy)
        states[state] += 1
        longest = max(longest, took)
        node.expect(0, "resume", app.pid)
        app.step()
    app.finish()
    print(f"{options.kills} kills in pauses of {options.bytes / GIB:.2f} GiB and {pause_seconds:.2f} s: "
          f"then {dict(states)}, {longest:.2f} s later at most, every byte right")


harness.scenario(run)
