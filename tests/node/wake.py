"""Programs that each need most of a GPU share it in turns, with no orchestrator: work at a closed gate and allocations
without room have others paused, each for a quantum at least, through deaths of programs and of the daemon; what a
request has paused stays so."""

import datetime
import time

import harness

GPU = "160M"
SIZE = ("--buffers", 2, "--bytes", "40M")
QUANTUM_S = 1


def start(node, *options, wait=True):
    """A stepper that takes turns; on a full GPU its allocations wait until another is paused."""
    app = node.start(harness.BUILD / "bin/stepper", *SIZE, *options, env={"PARKADE_WAKE": "1"})
    return app.ready() if wait else app


def daemon(node, *flags):
    node.start_daemon(*flags, env={"PARKADED_TURN_QUANTUM": str(QUANTUM_S)})


def turns(node):
    """The operations that gave somebody a turn, oldest first."""
    return [o for o in node.json("ops", "--ended")["operations"] if (o["request_id"] or "").startswith("wake-")]


def flag(node, app, name):
    found = node.process(app.pid)
    return bool(found and found[name])


def finish(*apps):
    """They run on their own, and every byte is right."""
    for app in apps:
        app.until("done after", 120)
        harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code of a stepper")


def on_their_own(node):
    """Two, and a third that joins, all busy: each turn lasts a quantum at least."""
    first, second = (start(node, "--steps", 8, "--step-ms", 300) for _ in range(2))
    third = start(node, "--steps", 3, "--step-ms", 300, wait=False)
    finish(first, second, third)
    out = [o for o in turns(node) if o["kind"] == "pause"]
    harness.holds(len(out) >= 2, f"turns: {out}")
    begun = sorted(datetime.datetime.fromisoformat(o["begin_time"].replace("Z", "+00:00")) for o in out)
    apart = min((later - sooner).total_seconds() for sooner, later in zip(begun, begun[1:]))
    harness.holds(apart >= QUANTUM_S, f"the shortest turn lasted {apart:.3f} s")
    # A program may end while it is being paused.
    ended = ("SHIM_DISCONNECTED", "PROCESS_ENDED")
    failed = [o for o in turns(node) if o["state"] != "done" and o["failure"]["reason"] not in ended]
    harness.equal(failed, [], "turns that failed")
    harness.holds("wake-" in node.expect(0, "ops", "--ended", "-o", "wide").out, "ops shows whose they are")
    return len(out)


def woken(node):
    """Used again, one that is out comes back, and the other leaves; nobody moves for one that is not used."""
    first = start(node, "--on-input")
    second = start(node, "--on-input")  # which paused the first
    harness.holds(flag(node, first, "out_for_turn"), "the first is out for the other's turn")
    harness.holds(node.process(second.pid)["takes_turns"], "it takes turns")
    harness.holds("out" in node.expect(0, "show", first.pid).out, "show says so")
    harness.holds(" out " in node.expect(0, "ps", "-o", "wide").out, "ps says so")
    for app, other in ((first, second), (second, first)):
        begin = time.monotonic()
        app.step()
        harness.equal((node.state(app.pid), node.state(other.pid)), ("running", "paused"), "who is in")
        print(f"a turn after {time.monotonic() - begin:.2f} s")
    return first, second


def held(node, first, second):
    """What a request has paused is not woken by use, also where the sharer had paused it before."""
    node.expect(0, "pause", first.pid)
    harness.holds(not flag(node, first, "out_for_turn"), "it is out because somebody wants it")
    first.ask_step()
    harness.wait_for("a thread waits at its gate", lambda: node.process(first.pid)["gated_threads"])
    before = len(turns(node))
    second.step()
    harness.equal((node.state(first.pid), len(turns(node)), flag(node, first, "asks_turn")), ("paused", before, False), "it stays paused")
    node.expect(0, "pause", second.pid)
    node.expect(0, "resume", first.pid)
    first.stepped()
    node.expect(0, "pause", first.pid)
    node.expect(0, "resume", second.pid)
    second.step()
    node.expect(0, "pause", second.pid)
    node.expect(0, "resume", first.pid)
    node.expect(2, "run", "--wake", "--no-park", "--", "true")


def killed(node, first, second):
    """Whoever holds the memory dies, then whoever waits for it: the others go on."""
    third = start(node, "--on-input")  # the first was paused for it
    first.ask_step()
    harness.wait_for("it asks for its turn", lambda: flag(node, first, "asks_turn") or node.state(first.pid) == "running")
    third.kill()
    first.stepped()
    waiter = start(node, "--on-input", wait=False)
    harness.wait_for("it waits for memory", lambda: any(p["asks_turn"] for p in node.processes()) or node.state(first.pid) == "paused")
    waiter.kill()
    first.step()
    harness.equal(node.state(first.pid), "running", "who was not needed any more is in")
    for app in (first, second):
        app.kill()


def restarted(node):
    """The daemon dies in the middle of turns, more than once: the next one goes on with them."""
    apps = [start(node, "--steps", 10, "--step-ms", 200) for _ in range(2)]
    for _ in range(2):
        before = len(turns(node))
        harness.wait_for("a turn begins", lambda: len(turns(node)) > before, 60)
        node.kill_daemon()
        daemon(node)
    finish(*apps)


def small_host(node):
    """Host memory that does not hold one of them: the rest goes to disk."""
    first = start(node, "--on-input")
    second = start(node, "--on-input")
    out = node.process(first.pid)
    harness.holds(out["disk_backup_bytes"] > 0 and out["host_backup_bytes"] > 0, f"both tiers: {out}")
    for app in (first, second, first):
        app.step()
    return first, second


def no_room(node):
    """Neither host memory nor disk: the turn is refused, and both are as they were."""
    first = start(node, "--on-input")
    second = start(node, "--on-input", wait=False)
    harness.equal(second.process.wait(harness.PATIENCE), 2, "exit code of a stepper whose allocation failed")
    harness.holds("OUT_OF_MEMORY" in second.errors(), second.errors())
    first.step()
    harness.equal(node.state(first.pid), "running", "state of the other")
    harness.holds(any(o["state"] == "failed" and o["kind"] == "pause" for o in turns(node)), f"ops shows the refusal: {turns(node)}")


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("fills a whole GPU: gpu.wake_card is for a card")
    daemon(node)
    print(f"{on_their_own(node)} turns of three programs")
    first, second = woken(node)
    held(node, first, second)
    killed(node, first, second)
    restarted(node)
    node.stop_daemon()
    daemon(node, "--host-budget", "48M")
    for app in small_host(node):
        app.kill()
    node.stop_daemon()
    daemon(node, "--host-budget", "16M", "--scratch-dir", "/nowhere/at/all")
    no_room(node)


if __name__ == "__main__":
    harness.scenario(run, gpu_bytes=GPU)
