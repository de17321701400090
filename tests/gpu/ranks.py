"""A job with a rank on each GPU of the machine, paused as a group between its steps and at random instants. For the
scenarios torch_ranks.py and torch_engines.py; their programs count steps as rank_clock.py says."""

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

HERE = pathlib.Path(__file__).parent
START = 300.0  # importing PyTorch from a cold disk
LONGEST_RUN = 0.1  # seconds between a resume and the next pause
LONGEST_STOP = 60.0  # of a pause or a resume; beyond it something hangs


def options(description, cases, each=100):
    """`cases`: what --cases takes, all by default; `each`: how many pauses of each kind, by default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--held", type=int, default=each, help="pauses between steps")
    parser.add_argument("--random", type=int, default=each, help="pauses at random instants")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="other instants")
    parser.add_argument("--cases", nargs="+", choices=cases, default=list(cases))
    return parser.parse_args()


def gpus(*modules, least=2):
    """How many the machine has; skips where there are fewer than `least`, or a module is not there."""
    if not harness.ON_CARD:
        raise harness.Skip("NCCL needs cards")
    count = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout.count("GPU ")
    if count < least:
        raise harness.Skip(f"only {count} GPU")
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise harness.Skip(f"{sys.executable} has no {module}")
    return count


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Job:
    def __init__(self, node, count, program, *options, env=None, park=True):
        self._node = node
        common = {
            "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(),
            "NCCL_NVLS_ENABLE": "0", **(env or {}),
        }
        self._ranks = [
            node.start(sys.executable, HERE / program, *options, env={**common, "RANK": str(rank)}, park=park)
            for rank in range(count)
        ]
        self._until("ready")
        self.pids = [app.pid for app in self._ranks]
        self.let_through, self.longest = [], 0.0
        self.kept, self.foreign = 0, {}

    def _until(self, word):
        for app in self._ranks:
            app.until(word, START)

    def stop(self, policy="host"):
        """Pauses all ranks and resumes them."""
        begin = time.monotonic()
        results = self._node.json("pause", *self.pids, "--policy", policy)["results"]
        self.let_through.append(sum(int(result.get("let_through", 0)) for result in results))
        self.kept = max(self.kept, sum(result["kept_bytes"] for result in results))
        if not self.foreign:
            self._note_foreign()
        self._node.expect(0, "resume", *self.pids)
        self.longest = max(self.longest, time.monotonic() - begin)

    def refuses_deep(self):
        """With live communicators a deep pause is a plain one, and says why."""
        results = self._node.json("pause", *self.pids, "--deep")["results"]
        self._node.expect(0, "resume", *self.pids)
        for result in results:
            harness.equal((result["state"], result["deep"]["deep"]), ("paused", False), f"a rank with NCCL: {result}")
        refusals = [result["deep"]["refusal"] for result in results]
        reasons = {refusal["reason"] for refusal in refusals}
        harness.holds(reasons <= {"FOREIGN_MEMORY", "NOT_ALL_OUT", "PEER_REFUSED"}, f"refusals: {refusals}")
        print(f"deep: {refusals[0]['message']}", flush=True)

    def _note_foreign(self):
        """What stays in HBM, by kind."""
        for pid in self.pids:
            for device in self._node.process(pid)["devices"]:
                for kind in device["foreign"]:
                    self.foreign[kind["kind"]] = self.foreign.get(kind["kind"], 0) + kind["bytes"]

    def between_steps(self, times):
        for _ in range(times):
            self._until("held")
            self.stop()
            for app in self._ranks:
                app.say("")

    def at_random(self, times, instants):
        for number in range(times):
            time.sleep(instants.uniform(0, LONGEST_RUN))  # a random instant, not a wait for anything
            self.stop("disk" if number % 20 == 19 else "host")

    def results(self):
        """Lets the ranks end; for each the lines that tell what it computed."""
        for app in self._ranks:
            app.process.stdin.close()
        self._until("done")
        for app in self._ranks:
            harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code of a rank")
        return [[line for line in app.said if line.startswith(("loss", "state"))] for app in self._ranks]

    def show_warnings(self):
        for pid in self.pids:
            for warning in self._node.json("show", pid)["process"]["warnings"]:
                print(f"warning: {warning}", flush=True)

    def show(self, label):
        foreign = ", ".join(f"{kind} {bytes_ >> 20} MiB" for kind, bytes_ in self.foreign.items())
        print(
            f"{label}: {len(self.let_through)} pauses, {sum(self.let_through)} calls let through, {self.longest:.2f} s at"
            f" most; held {self.kept >> 20} MiB; not ours: {foreign}", flush=True)


def paused(node, count, options, label, program, *words, env=None, nccl=False, warnings=False):
    """What the ranks computed through all pauses. `nccl`: their communicators live all the time; `warnings`: those of
    the daemon are printed."""
    job = Job(node, count, program, *words, "--held", options.held, env=env)
    job.between_steps(options.held)
    if warnings:
        job.show_warnings()
    if nccl:
        job.refuses_deep()
    job.at_random(options.random, random.Random(options.seed))
    results = job.results()
    job.show(label)
    harness.holds(job.longest < LONGEST_STOP, f"{label}: a stop of {job.longest:.1f} s")
    return results


def last_step(results):
    return int(results[0][-1].split()[1])


def check(found, wanted, label):
    """All that the paused ranks said is what those without pauses said; these may have run on."""
    for rank, (lines, reference) in enumerate(zip(found, wanted, strict=True)):
        said = set(reference)
        wrong = [line for line in lines if line not in said]
        harness.equal(wrong, [], f"{label}: lines of rank {rank} that the run without pauses does not say")
    harness.holds(len(found[0]) > 1, f"{label}: only {len(found[0])} lines")
    print(f"{label}: {last_step(found)} steps, bit-equal", flush=True)
