"""Ranks stopped anywhere among their collectives, again and again, compute what they compute without a
pause; a rank that cannot be stopped is named, and then every rank goes on.

With --pauses N so many instead of the few of a test run, with --seed N other instants."""

import argparse
import random
import re
import time

import harness

RANKS, TENSOR_PARALLEL = 4, 2
PRECONDITION = 4


class Job:
    """The ranks of one job, by rank."""

    def __init__(self, node, seed, *options, park=True):
        self.node = node
        board = node.root / f"board-{len(node.apps)}"
        env = {"PARKADE_JOB": "job"}
        self.ranks = [
            node.start(
                harness.BUILD / "bin/collective", "--board", board, "--rank", rank, "--ranks", RANKS,
                "--tp", TENSOR_PARALLEL, "--seed", seed, *options, env={**env, "RANK": str(rank)}, park=park,
            )
            for rank in range(RANKS)
        ]
        for app in self.ranks:
            app.pid = int(re.match(r"collective rank \d+ pid (\d+) ready", app.line())[1])
        if park:
            harness.wait_for("all ranks are listed as running", lambda: self.states() == ["running"] * RANKS)

    def states(self):
        found = {p["pid"]: p["state"] for p in self.node.processes()}
        return [found.get(app.pid) for app in self.ranks]

    def stop(self):
        """Lets the job end after its round."""
        self.ranks[0].say("stop")

    def digests(self):
        """Waits for the job's end; the digests of every rank, one a round."""
        for app in self.ranks:
            app.until("done")
            harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code of a rank")
        return [[line for line in app.said if line.startswith("round")] for app in self.ranks]


def pause_at_random(node, job, times, instants):
    """Pauses and resumes the job; returns how many calls had to be let through, by pause."""
    let_through = []
    for cycle in range(times):
        time.sleep(instants.uniform(0, 0.03))  # a random instant, not a wait for anything
        policy = ("host", "disk")[cycle % 2] if cycle % 8 < 2 else "host"
        results = node.json("pause", "--job", "job", "--policy", policy, "--drain-timeout", "20s")["results"]
        harness.equal(job.states(), ["paused"] * RANKS, f"states after pause {cycle}")
        let_through.append(sum(int(r.get("let_through", 0)) for r in results))
        node.expect(0, "resume", "--job", "job")
    return let_through


def refused(node, job, undrained):
    """A pause that some rank of `undrained` makes impossible: it is named, and all gates open again."""
    done = node.expect(PRECONDITION, "pause", "--job", "job", "--drain-timeout", "1s")
    named = {rank for rank, app in enumerate(job.ranks) if re.search(rf"\b{app.pid}\b", done.err)}
    harness.holds(named & undrained, f"one of the ranks {undrained} must be named, not {named}: {done.err.strip()}")
    harness.equal(job.states(), ["running"] * RANKS, "states after the refused pause")
    harness.wait_for("no thread is at a gate", lambda: not any(p["gated_threads"] for p in node.processes()))


def run(node):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pauses", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    if harness.ON_CARD:
        raise harness.Skip("its kernels are host functions of the simulated GPU")
    print(f"seed {options.seed}", flush=True)
    node.start_daemon()
    job = Job(node, options.seed)
    let_through = pause_at_random(node, job, options.pauses, random.Random(options.seed))
    met = sum(1 for n in let_through if n)
    print(f"{options.pauses} pauses, {met} of them among collectives, {max(let_through)} calls let through at most")
    harness.holds(met, "no pause came among collectives: the job is no load")

    # Its own kernel does not end; then it launches nothing, and the kernels of the others wait for it.
    for what, undrained in (("hold kernel", {2}), ("hold host", {0, 1, 3})):
        job.ranks[2].say(what)
        job.ranks[2].until("held")
        refused(node, job, undrained)
        job.ranks[2].say("release")
    pause_at_random(node, job, 1, random.Random(options.seed))

    job.stop()
    found = job.digests()
    wanted = Job(node, options.seed, "--rounds", len(found[0]), park=False).digests()
    for rank in range(RANKS):
        harness.equal(found[rank], wanted[rank], f"what rank {rank} computed")
    print(f"{len(found[0])} rounds, the same digests in each")


harness.scenario(run, gpu_bytes="2G")
