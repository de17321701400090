"""A trainer whose optimizer state streams through a store trains like one with all state in memory, bit for bit, also when
it is paused between steps and in the middle of one, under every policy; a paused one's store moves no bytes."""

import harness

TRAINER = harness.BUILD / "bin/store_trainer"


class Trainer:
    """The program, told what to do; `step` counts what it has done."""

    def __init__(self, node, encoding="fp32", host_bytes=0, park=True):
        self.node = node
        self.folder = node.root / "state-of-optimizer"
        self.folder.mkdir(exist_ok=True)
        self.app = node.start(TRAINER, self.folder, encoding, host_bytes, park=park)
        self.app.until("ready")
        self.pid = self.app.pid
        self.steps = 0

    def train(self, line):
        self.steps += 1
        self.app.say(line)
        harness.equal(self.app.line(), f"step {self.steps} same", line)

    def ask(self, line):
        self.app.say(line)
        return self.app.line()

    def moved(self):
        """What the store has read and written."""
        return self.ask("stats").split()[1:3]

    def end(self):
        harness.equal(self.ask("end"), "closed", "the trainer's end")
        harness.equal(self.app.process.wait(harness.PATIENCE), 0, "exit code")
        harness.equal(list(self.folder.iterdir()), [], "files that a closed store has left")


def without_pause(node, encoding, host_bytes):
    trainer = Trainer(node, encoding, host_bytes)
    trainer.train("step")
    trainer.train("callback")
    trainer.train("step")
    trainer.end()


def with_pauses(node, policy, encoding):
    trainer = Trainer(node, encoding)
    harness.wait_for("the daemon lists the trainer", lambda: node.state(trainer.pid) == "running")
    trainer.train("step")
    node.expect(0, "pause", trainer.pid, "--policy", policy)
    # The last step's write tail may have ended before; from now on nothing moves.
    before = trainer.moved()
    harness.equal(trainer.moved(), before, f"bytes moved while paused under {policy}")
    node.expect(0, "resume", trainer.pid)
    trainer.train("callback")

    harness.equal(trainer.ask("hold"), "held", "a step begun")
    node.expect(0, "pause", trainer.pid, "--policy", policy)
    before = trainer.moved()
    harness.equal(trainer.moved(), before, f"bytes moved while paused in a step under {policy}")
    trainer.app.say("go")  # waits at the gate
    node.expect(0, "resume", trainer.pid)
    trainer.steps += 1
    harness.equal(trainer.app.line(), f"step {trainer.steps} same", "the step that was paused")
    trainer.train("step")
    trainer.end()


def listed(node):
    """What the daemon says of the store, also one that was started after it."""
    trainer = Trainer(node, "lo16")
    harness.wait_for("the daemon lists the trainer", lambda: node.state(trainer.pid) == "running")
    trainer.train("step")
    trainer.train("step")

    def store():
        (only,) = node.json("store", "show", "trainer")["stores"]
        return only

    harness.wait_for("the last step is whole", lambda: store()["step"] == 2 and store()["state"] == "idle")
    one = store()
    harness.equal((one["pid"], one["elements"], one["placement"]), (trainer.pid, 700_001 + 31 + 262_144 + 1, "files"), "what the store is")
    harness.equal(one["directories"], [str(trainer.folder)], "where it is")
    harness.equal([s["encoding"] for s in one["segments"]], ["lo16", "fp32", "fp32"], "its encodings")
    harness.holds(one["last_seconds"] > 0 and 0 < one["last_written_bytes"] < one["written_bytes"], f"what it has moved: {one}")
    node.kill_daemon()
    trainer.train("step")
    node.start_daemon()
    harness.wait_for("the next daemon knows the step", lambda: "trainer" in node.cli("store", "ls").out and store()["step"] == 3)
    harness.equal(trainer.ask("hold"), "held", "a step begun")
    harness.equal((store()["state"], store()["open_step"]), ("stepping", 4), "a step under way")
    trainer.ask("go")
    trainer.steps += 1
    trainer.end()
    node.expect(3, "store", "show", "trainer")


def killed(node):
    trainer = Trainer(node)
    trainer.train("step")
    harness.equal(trainer.ask("hold"), "held", "a step begun")
    trainer.app.kill()
    harness.holds(list(trainer.folder.iterdir()), "files of a killed trainer")
    again = Trainer(node)  # takes over what the dead one has left
    again.train("step")
    again.end()


def run(node):
    for encoding, host_bytes in (("fp32", 0), ("lo16", 0), ("fp32", 4 << 20), ("fp32", 1 << 30)):
        without_pause(node, encoding, host_bytes)
    node.start_daemon()
    for policy in ("host", "disk", "auto"):
        with_pauses(node, policy, "fp32" if policy == "host" else "lo16")
    listed(node)
    killed(node)


harness.scenario(run)
