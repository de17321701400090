"""The example of a colocated loop: trainer and engine of two ranks each take turns where only one of them fits, whatever
happens to the daemon and the caller meanwhile; and an engine that sleeps by itself beside a trainer that is parked."""

import importlib
import pathlib
import sys
import threading

import harness
import python_package

RANKS = 2
JOB = "rl"
STUCK_MS = 1500


def start(node, role, size):
    return [
        node.stepper("--buffers", 3, "--bytes", size, env={"PARKADE_JOB": JOB, "PARKADE_ROLE": role, "PARKADE_RANK": str(rank)})
        for rank in range(RANKS)
    ]


def work(apps):
    for app in apps:
        app.ask_step()
    for app in apps:
        app.stepped()


def finish(apps):
    for app in apps:
        app.finish()


class Files:
    """A framework whose weights go by way of a file; what it does is in `did`."""

    def __init__(self, node, trainer, engine):
        self.weights, self.trainer, self.engine = pathlib.Path(node.root) / "weights", trainer, engine
        self.did, self.version = [], 0

    def loop(self, colocated):
        return colocated.Loop(self.generate, self.train, self.publish, self.load)

    def generate(self):
        work(self.engine)
        self.did.append("generate")
        return f"batch of {self.version}"

    def train(self, batch):
        harness.equal(batch, f"batch of {self.version}", "the batch trained on")
        work(self.trainer)
        self.did.append("train")

    def publish(self):
        self.weights.write_text(str(self.version + 1))

    def load(self):
        self.version = int(self.weights.read_text())
        self.did.append("load")


def turns_of_two(parkade, colocated, node, client):
    trainer = start(node, "actor", "40M")
    turns = colocated.Turns(client, JOB, {"actor": RANKS, "rollout": RANKS}, epoch=1, patience=harness.PATIENCE)
    turns.leave("actor")
    engine = start(node, "rollout", "36M")
    turns.check()
    if not harness.ON_CARD:
        python_package.fails(parkade.ResourceExhausted, "GPU_MEMORY", lambda: turns.enter("actor", wait=0.0))
    framework = Files(node, trainer, engine)
    for _ in range(3):
        colocated.step(turns, framework.loop(colocated))
    harness.equal(framework.did, ["generate", "train", "load"] * 3, "what the loop did")
    harness.equal(framework.version, 3, "updates of the weights")
    interrupted(parkade, colocated, node, client, turns, framework)
    harness.holds(all(r.already for r in turns.hand("actor", "rollout")), "a turn that was made already says so")
    newer = colocated.Turns(client, JOB, {"actor": RANKS, "rollout": RANKS}, epoch=2)
    newer.hand("rollout", "actor")
    python_package.fails(parkade.FailedPrecondition, "STALE_EPOCH", lambda: turns.hand("actor", "rollout"))
    work(trainer)
    finish(trainer)
    newer.enter("rollout")
    work(engine)
    finish(engine)


def interrupted(parkade, colocated, node, client, turns, framework):
    """A daemon that ends in the middle of a turn, and a caller that does not wait long enough."""
    if harness.ON_CARD:
        return
    work(framework.engine)  # so that its bytes have to move
    node.faults(f"cuMemcpyDtoHAsync 1 wait {STUCK_MS}ms pid={framework.engine[0].pid}")
    results = []
    turn = threading.Thread(target=lambda: results.extend(turns.hand("rollout", "actor")))
    turn.start()
    harness.wait_for("bytes move", lambda: node.state(framework.engine[0].pid) == "evicting")
    node.kill_daemon()
    node.faults()
    node.start_daemon()
    turn.join(harness.PATIENCE)
    harness.equal(len(results), 2 * RANKS, "processes in the turn that went over two daemons")
    framework.train(f"batch of {framework.version}")

    node.faults(f"cuMemcpyDtoHAsync 1 wait {STUCK_MS}ms pid={framework.trainer[0].pid}")
    with parkade.Client(str(node.runtime), timeout=0.5) as hasty:
        colocated.Turns(hasty, JOB, {"actor": RANKS, "rollout": RANKS}, epoch=1).hand("actor", "rollout")
    node.faults()
    framework.generate()


def engine_that_sleeps(parkade, colocated, node, client):
    """The engine, which nobody pauses, frees and takes its memory itself."""
    trainer = start(node, "actor", "40M")
    turns = colocated.Turns(client, JOB, {"actor": RANKS}, epoch=3)
    turns.check()
    turns.leave("actor")
    engine = node.start(harness.BUILD / "bin/churn", 7).ready()

    def tell(line):
        engine.say(line)
        engine.until(f"{line.split()[0]} ok")

    loop = colocated.SleepyLoop(
        generate=lambda: tell("step"),
        sleep=lambda: tell("free 40"),
        train=lambda batch: work(trainer),
        wake_weights=lambda: tell("allocate 10"),
        update=lambda: work(trainer),
        wake_cache=lambda: tell("allocate 30"),
    )
    tell("allocate 40")
    for _ in range(3):
        colocated.sleepy_step(turns, loop)
    tell("step")
    engine.kill()
    turns.enter("actor")
    work(trainer)
    finish(trainer)


def missing(parkade, colocated, node, client):
    """A process without the library is missed before the first turn."""
    bare = node.stepper("--buffers", 1, "--bytes", "1M", env={"PARKADE_JOB": "other", "PARKADE_ROLE": "actor"}, park=False)
    turns = colocated.Turns(client, "other", {"actor": 1})
    try:
        turns.check()
        raise AssertionError("a process without the library must be missed")
    except RuntimeError as error:
        harness.holds("0 of 1" in str(error), f"what is said of it: {error}")
    python_package.fails(parkade.NotFound, "NO_PROCESS", lambda: turns.leave("actor"))
    bare.finish()


def run(node):
    parkade = python_package.load()
    sys.path.insert(0, str(python_package.examples()))
    colocated = importlib.import_module("colocated_step")
    node.start_daemon()
    with parkade.Client(str(node.runtime)) as client:
        turns_of_two(parkade, colocated, node, client)
        engine_that_sleeps(parkade, colocated, node, client)
        missing(parkade, colocated, node, client)


harness.scenario(run, gpu_bytes="400M")
