"""Memory that a program makes and maps itself leaves HBM and comes back as it was: every byte at every place,
aliases, access, handles and what the driver says of them; while paused it can be given back; forks; with pauses at
random instants and daemons that are killed."""

import argparse
import random
import time

import harness

PROGRAM = harness.TREE / "tests/apps/expandable.py"
PAUSES = 40
KILLS = 6
NOT_INITIALIZED = 3


def start(node, seed):
    app = node.start("python3", PROGRAM, seed)
    harness.equal(app.line(), "ready", "first line of the program")
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")
    return app


def ask(app, *words):
    app.say(" ".join(map(str, words)))
    return app.line()


def size(answer):
    return int(answer.split()[-1])


def between_steps(node, app):
    """To host and disk by turns: all of it leaves, and every question has its answer meanwhile."""
    for turn in range(6):
        ask(app, "step", 12)
        mapped = size(ask(app, "grow", 4))
        listed = sum(a["bytes"] for a in node.json("show", app.pid)["allocations"])
        harness.equal(listed, mapped, "bytes listed, each handle's once")
        said, free = ask(app, "ask"), node.gpu_free()
        result = node.json("pause", app.pid, "--policy", ("host", "disk")[turn % 2])["results"][0]
        harness.equal(result["host_bytes"] + result["disk_bytes"], mapped, "bytes moved")
        harness.equal(result["kept_bytes"], 0, "bytes kept")
        freed = node.gpu_free() - free
        harness.holds(freed >= mapped - harness.DRIVER_OWN_BYTES, f"the driver shows {freed} bytes more free, of {mapped} that left")
        print(f"turn {turn}: {mapped >> 20} MiB left, {freed >> 20} MiB more free")
        harness.equal(ask(app, "ask"), said, "what the driver says while paused")
        # Given back at once, and never restored.
        left = size(ask(app, "shrink", 2))
        said = ask(app, "ask")
        app.say("check")
        harness.wait_for("a thread waits at the gate", lambda: node.process(app.pid)["gated_threads"] == 1)
        result = node.json("resume", app.pid)["results"][0]
        harness.equal(result["host_bytes"] + result["disk_bytes"], left, "bytes restored")
        harness.equal(size(app.line()), left, "bytes right after the resume")
        harness.equal(ask(app, "ask"), said, "what the driver says after the resume")


def open_gate(node, app):
    """The program gives back what is out, and makes more; none of its threads waits."""
    ask(app, "step", 12)
    node.expect(0, "pause", app.pid, "--gate", "open")
    ask(app, "shrink", 3)
    wanted = size(ask(app, "grow", 3))
    node.expect(0, "resume", app.pid)
    harness.equal(size(ask(app, "check")), wanted, "bytes right after the resume")


def at_random(node, app, chance):
    """The program works on; pauses come whenever they come."""
    for turn in range(PAUSES):
        app.say("step 10")
        time.sleep(chance.uniform(0, 0.1))
        node.expect(0, "pause", app.pid, "--policy", chance.choice(("host", "disk")))
        node.expect(0, "resume", app.pid)
        app.until("step")


def daemon_killed(node, app, chance):
    """A pause or a resume whose daemon dies at some instant of it."""
    for turn in range(KILLS):
        app.say("step 10")
        verb = ("pause", "resume")[turn % 2]
        if verb == "resume":
            node.expect(0, "pause", app.pid, "--policy", "disk")
        node.start_cli(verb, app.pid)
        time.sleep(chance.uniform(0, 0.2))
        node.kill_daemon()
        node.start_daemon()
        if harness.wait_for("it has settled", lambda: node.settled(app.pid)) == "paused":
            node.expect(0, "resume", app.pid)
        app.until("step")


def forked(node, app):
    """A child has no driver: what it tries leaves its parent's memory alone, paused or not."""
    mapped = size(ask(app, "grow", 3))
    harness.equal(ask(app, "fork"), f"forked {NOT_INITIALIZED}", "what a child is told")
    node.expect(0, "pause", app.pid)
    harness.equal(ask(app, "fork"), f"forked {NOT_INITIALIZED}", "what a child is told while its parent is paused")
    node.expect(0, "resume", app.pid)
    harness.equal(size(ask(app, "check")), mapped, "bytes right after the resume")


def held(node, app):
    ask(app, "clear")
    mapped = size(ask(app, "grow", 6))
    exported = size(ask(app, "export"))
    shown = node.json("show", app.pid)
    harness.equal(sum(a["bytes"] for a in shown["allocations"] if a["class"] == "held"), exported, "bytes held")
    harness.holds(any("shareable handle" in w for w in shown["process"]["warnings"]), f"the reason is said: {shown['process']}")
    result = node.json("pause", app.pid)["results"][0]
    harness.equal(result["kept_bytes"], exported, "bytes kept, since somebody may have the descriptor")
    node.expect(0, "resume", app.pid)
    harness.equal(size(ask(app, "check")), mapped, "bytes right")


def run(node):
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    seed = parser.parse_args().seed
    print(f"seed {seed}")
    chance = random.Random(seed)
    node.start_daemon()
    app = start(node, seed)
    free = node.gpu_free()
    between_steps(node, app)
    open_gate(node, app)
    at_random(node, app, chance)
    daemon_killed(node, app, chance)
    forked(node, app)
    held(node, app)
    harness.equal(ask(app, "clear"), "cleared", "the last answer")
    harness.equal(node.json("show", app.pid)["allocations"], [], "allocations listed at the end")
    harness.holds(node.gpu_free_is(free), "all memory is back")
    app.process.stdin.close()
    harness.equal(app.process.wait(harness.PATIENCE), 0, "the program's exit code")
    harness.wait_for("its scratch is gone", lambda: not node.scratch_entries())


harness.scenario(run)
