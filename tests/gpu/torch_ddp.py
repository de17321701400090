"""Training on two GPUs with NCCL is paused as a group at random instants, ranks stopped inside collectives
among them; losses and weights equal those of a run without pauses, bit for bit. Needs two GPUs.

--steps N makes it so long, --seed N takes other instants."""

import argparse
import importlib.util
import pathlib
import random
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("train_ddp.py")
START = 300.0  # importing PyTorch from a cold disk
LONGEST_RUN = 0.3  # seconds between a resume and the next pause
LONGEST_STOP = 60.0  # of a pause or a resume; beyond it something hangs
RANKS = 2


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def start(node, options, park, cumem):
    port = free_port()
    ranks = []
    for rank in range(RANKS):
        env = {
            "RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
            "NCCL_NVLS_ENABLE": "0", "NCCL_CUMEM_ENABLE": cumem, "PARKADE_JOB": "ddp",
        }
        ranks.append(node.start(sys.executable, PROGRAM, "--steps", options.steps, env=env, park=park))
    for app in ranks:
        app.until("ready", START)
    return ranks


def results(ranks):
    for app in ranks:
        app.until("state", START)
        harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code of a rank")
    return [[line for line in app.said if line.startswith(("step", "state"))] for app in ranks]


def one_has_ended(ranks, refusal):
    """A refusal is right only when a rank was ending just then; that must not be held up."""
    harness.wait_for(f"a rank has ended: {refusal.err}", lambda: any(map(harness.gone, [app.pid for app in ranks])), 5)


def pause_until_done(node, ranks, instants):
    """Pauses and resumes the group until a rank has ended. Returns pauses, calls let through, longest stop."""
    pids = [app.pid for app in ranks]
    pauses, let_through, longest = 0, 0, 0.0
    while all(app.process.poll() is None for app in ranks):
        time.sleep(instants.uniform(0, LONGEST_RUN))  # a random instant, not a wait for anything
        begin = time.monotonic()
        done = node.cli("-o", "json", "pause", *pids, "--policy", "disk" if pauses % 10 == 9 else "host")
        resumed = node.cli("resume", *pids)
        longest = max(longest, time.monotonic() - begin)
        if done.code or resumed.code:
            one_has_ended(ranks, resumed if done.code == 0 else done)
            for pid in pids:
                node.cli("resume", pid)
            break
        let_through += sum(r.get("let_through", 0) for r in harness.json.loads(done.out)["results"])
        pauses += 1
    harness.holds(longest < LONGEST_STOP, f"a stop of {longest:.1f} s")
    return pauses, let_through, longest


def run(node):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    if not harness.ON_CARD:
        raise harness.Skip("NCCL needs cards")
    cards = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout.count("GPU ")
    if cards < RANKS:
        raise harness.Skip(f"only {cards} GPU")
    if importlib.util.find_spec("torch") is None:
        raise harness.Skip(f"{sys.executable} has no PyTorch")
    print(f"seed {options.seed}", flush=True)
    instants = random.Random(options.seed)
    node.start_daemon()
    for cumem in ("0", "1"):
        ranks = start(node, options, True, cumem)
        pauses, let_through, longest = pause_until_done(node, ranks, instants)
        print(f"{pauses} pauses, {let_through} calls let through, {longest:.2f} s at most", flush=True)
        found = results(ranks)
        wanted = results(start(node, options, False, cumem))
        harness.equal(found, wanted, "losses and weights of the paused training")
        print(f"NCCL_CUMEM_ENABLE={cumem}: bit-equal, {found[0][-1]}", flush=True)
        harness.holds(pauses >= 10, f"only {pauses} pauses")


harness.scenario(run)
