"""Four processes of 500 buffers are paused and resumed over and over, to host and disk in turn, while
they free and allocate, and ranks, commands and the daemon are killed at random: no byte is ever wrong, and
whoever lives on holds no more of the system at the end than after the warm-up.

scripts/soak runs it for long; --seconds N ends it after that time, --cycles N after so many cycles."""

import argparse
import random
import time

import footprint
import harness

RANKS, BUFFERS = 4, 500
KEEPERS = 2  # ranks that are never killed, so that what they hold can be compared
SETTLED = {"running", "paused"}


class Soak:
    def __init__(self, node, seed, sample_every):
        self.node = node
        self.random = random.Random(seed)
        self.sample_every = sample_every
        self.ranks = [None] * RANKS
        self.samples = {}  # (what, pid): footprints
        self.counts = dict.fromkeys(
            ("pauses", "killed ranks", "killed commands", "killed daemons", "frees while paused",
             "allocations while paused"), 0)

    # What the ranks do.

    def start_rank(self, rank):
        env = {"PARKADE_JOB": "soak", "RANK": str(rank), **footprint.ONE_ARENA}
        app = self.node.start(harness.BUILD / "bin/churn", self.random.randrange(1 << 62), env=env).ready()
        harness.wait_for("the rank is listed", lambda: self.node.state(app.pid) == "running")
        self.ranks[rank] = app
        self.tell(app, f"allocate {BUFFERS}")

    def tell(self, app, line):
        app.say(line)
        return app.until(f"{line.split()[0]} ok")

    def step_all(self):
        for app in self.ranks:
            app.say("step")
        for app in self.ranks:
            app.until("step ok")

    def churn_all(self):
        for app in self.ranks:
            count = self.random.randrange(30)
            self.tell(app, f"free {count}")
            self.tell(app, f"allocate {count}")

    # What happens to them.

    def start_daemon(self):
        self.node.start_daemon(env=footprint.ONE_ARENA)

    def settle(self):
        """Waits until every rank is connected and between operations, then brings all to running."""
        def settled():
            found = {p["pid"]: p["state"] if p["connected"] else "away" for p in self.node.processes()}
            wanted = {app.pid for app in self.ranks}
            return set(found) == wanted and set(found.values()) <= SETTLED

        harness.wait_for("every rank is running or paused", settled)
        self.node.expect(0, "resume", "--job", "soak")

    def pause(self, policy):
        """A pause during which they free and allocate."""
        passes = self.random.random() < 0.5
        words = ("--gated-allocations", "pass") if passes else ()
        self.node.expect(0, "pause", "--job", "soak", "--policy", policy, *words)
        self.counts["pauses"] += 1
        waiting = []
        for app in self.ranks:
            count = self.random.randrange(20)
            self.tell(app, f"free {count}")
            self.counts["frees while paused"] += count
            app.say(f"allocate {count}")
            if passes:
                app.until("allocate ok")
                self.counts["allocations while paused"] += count
            else:
                waiting.append(app)
        return waiting

    def resume(self, *words):
        self.node.expect(0, "resume", "--job", "soak", *words)

    def killed(self, policy, victim):
        """Kills `victim` at a random moment of a pause or of a resume."""
        verb = self.random.choice(("pause", "resume"))
        if verb == "resume":
            self.node.expect(0, "pause", "--job", "soak", "--policy", policy)
        words = ("--policy", policy) if verb == "pause" else ()
        command = self.node.start_cli(verb, "--job", "soak", *words)
        time.sleep(self.random.uniform(0, 0.3))  # a random instant, not a wait for anything
        if victim == "killed commands":
            command.kill()
        elif victim == "killed daemons":
            self.node.kill_daemon()
            self.start_daemon()
        else:
            self.ranks[self.random.randrange(KEEPERS, RANKS)].kill()
        command.wait(harness.PATIENCE)
        self.counts[victim] += 1
        for rank, app in enumerate(self.ranks):
            if harness.gone(app.pid):
                harness.wait_for("the killed rank is forgotten", lambda pid=app.pid: self.node.state(pid) is None)
                self.node.apps.remove(app)
                self.start_rank(rank)
        self.settle()

    # What is measured.

    def sample(self):
        """What keepers and daemon hold with nothing allocated and all host memory given back."""
        # To disk once, so that each has its directory, also one that was started just now.
        self.node.expect(0, "pause", "--job", "soak", "--policy", "disk")
        self.resume()
        for app in self.ranks:
            self.tell(app, f"free {BUFFERS}")
        self.node.expect(0, "pause", "--job", "soak", "--policy", "host")
        self.resume("--release-host")
        harness.wait_for("the host memory is given back", lambda: not any(p["host_pool_bytes"] for p in self.node.processes()))
        for app in self.ranks[:KEEPERS]:
            self.keep("rank", app.pid, footprint.of(app.pid))
        self.keep("daemon", self.node.daemon.pid, footprint.of(self.node.daemon.pid, (self.node.root / "state", self.node.scratch)))
        for app in self.ranks:
            self.tell(app, f"allocate {BUFFERS}")

    def keep(self, what, pid, found):
        self.samples.setdefault((what, pid), []).append(found)

    def check_growth(self, warm_up):
        """Of each process that has lived long enough; all are looked at before it fails."""
        grown = []
        for (what, pid), samples in self.samples.items():
            if len(samples) < warm_up + 3:
                continue
            try:
                footprint.check(f"{what} {pid}", samples[warm_up:])
            except AssertionError as error:
                grown.append(str(error))
        harness.holds(not grown, "; ".join(grown))

    def cycle(self, number, daemon_may_die):
        policy = ("host", "disk")[number % 2]
        self.churn_all()
        self.step_all()
        waiting = self.pause(policy)
        self.resume(*(("--release-host",) if self.random.random() < 0.2 else ()))
        for app in waiting:
            app.until("allocate ok")
        self.step_all()
        dice = self.random.random()
        if dice < 0.1:
            self.killed(policy, "killed ranks")
        elif dice < 0.2:
            self.killed(policy, "killed commands")
        elif dice < 0.25 and daemon_may_die:
            self.killed(policy, "killed daemons")
        if number % self.sample_every == self.sample_every - 1:
            self.sample()
        for app in self.ranks:
            app.said.clear()


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("it kills what uses the GPU two hundred times: on the simulated one only")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--sample-every", type=int, default=20, help="cycles between two measurements")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    soak = Soak(node, options.seed, options.sample_every)
    soak.start_daemon()
    for rank in range(RANKS):
        soak.start_rank(rank)
    begin = time.monotonic()
    ran = 0
    while ran < options.cycles and time.monotonic() - begin < options.seconds:
        # In the later part one daemon lives on, so that it can be seen whether it grows.
        daemon_may_die = ran < options.cycles / 3 and time.monotonic() - begin < options.seconds / 3
        soak.cycle(ran, daemon_may_die)
        ran += 1
        if ran % 100 == 0:
            print(f"{ran} cycles in {time.monotonic() - begin:.0f} s: {soak.counts}", flush=True)
    print(f"{ran} cycles in {time.monotonic() - begin:.0f} s, no byte wrong: {soak.counts}")
    soak.check_growth(warm_up=2)
    for app in soak.ranks:
        app.process.stdin.close()
        harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code of a rank")
    harness.wait_for("their scratch is gone", lambda: not node.scratch_entries())


harness.scenario(run, gpu_bytes="8G")
