"""Whatever fails in the four calls of a deep pause, whoever dies in one of them, and when there is no room for the way back:
nothing is lost, each state is told as it is, and a resume works as soon as it can."""

import os
import struct

import harness

UNKNOWN, NOT_READY = 999, 600
STATE, RESOURCES = 4, 5
STUCK_MS = 1000
CALLS = ("GetState", "Lock", "Checkpoint", "Restore", "Unlock")


def named(call):
    return f"cuCheckpointProcess{call}"


def one(node, *words):
    return node.json(*words)["results"][0]


def state(node, app):
    found = node.process(app.pid)
    return found["state"], found["deep"]


def start(node, **env):
    app = node.stepper("--buffers", 3, "--bytes", "1,4K,30M", env=env)
    app.step()
    return app


def works(node, app):
    node.expect(0, "resume", app.pid)
    harness.equal(state(node, app), ("running", False), "state after the resume")
    app.step()


def failing_on_the_way_down(node, app):
    """The plain pause stands, and the answer names the call."""
    for call, ending, reason in [
        ("GetState", f"fail {UNKNOWN}", "CUDA_ERROR_UNKNOWN"), ("Lock", f"fail {NOT_READY}", "CUDA_ERROR_NOT_READY"),
        ("Checkpoint", f"fail {UNKNOWN}", "CUDA_ERROR_UNKNOWN"), ("Lock", "kill", "DRIVER_STALLED"),
        ("Checkpoint", "kill", "DRIVER_STALLED"),
    ]:
        node.faults(f"{named(call)} 1 {ending}")
        step = one(node, "pause", app.pid, "--deep")["deep"]
        node.faults()
        harness.equal((step["deep"], step["refusal"]["reason"]), (False, reason), f"{call} {ending}")
        harness.equal(step["refusal"]["metadata"]["call"], named(call), "the call that is named")
        harness.equal(state(node, app), ("paused", False), f"state after {call} {ending}")
        works(node, app)


def failing_undo(node, app):
    """A lock that the driver does not let go of stays known, and the next resume tries again."""
    node.faults(f"{named('Checkpoint')} 1 fail {UNKNOWN}", f"{named('Unlock')} 1 fail {UNKNOWN}")
    step = one(node, "pause", app.pid, "--deep")["deep"]
    node.faults()
    harness.holds("does not let go" in step["refusal"]["message"], f"refusal: {step['refusal']}")
    harness.equal(state(node, app), ("paused", True), "state while the driver has it")
    works(node, app)


def failing_on_the_way_back(node, app):
    """It stays paused and deep, with every byte, until the call works."""
    for call in ("GetState", "Restore", "Unlock"):
        for ending in (f"fail {UNKNOWN}", "kill"):
            node.expect(0, "pause", app.pid, "--deep")
            node.faults(f"{named(call)} 1 {ending}")
            done = node.cli("resume", app.pid)
            node.faults()
            harness.holds(done.code != 0 and named(call) in done.err, f"{call} {ending}: {done.code}, {done.err.strip()}")
            harness.equal(state(node, app), ("paused", True), f"state after {call} {ending}")
            works(node, app)


def without_room(node):
    """The way back needs room for the context too: refused with figures, or waited for."""
    app = start(node)
    before = node.gpu_free()
    node.expect(0, "pause", app.pid, "--deep")
    # Another user's job leaves enough for what was paused, and too little for the context beside it: it has one too.
    taker = node.stepper("--buffers", 1, "--bytes", before - (8 << 20), park=False)
    done = node.expect(RESOURCES, "resume", app.pid)
    harness.holds("GPU" in done.err, f"the error must speak of GPU memory: {done.err.strip()}")
    harness.equal(state(node, app), ("paused", True), "state after the resume without room")
    waiting = node.start_cli("resume", app.pid, "--wait", "60s")
    harness.wait_for("the resume waits", lambda: any(o["waiting"] for o in node.json("ops")["operations"]))
    taker.step()
    taker.finish()
    harness.equal(waiting.wait(harness.PATIENCE), 0, f"exit code of the resume that waited: {waiting.stderr.read()}")
    app.step()
    app.finish()


def given_up(node):
    """A process that the driver has given up is failed, for the next daemon too; it can only end."""
    app = start(node)
    free = node.gpu_free()
    config = node.root / "sim/config"
    config.write_text("checkpoint_breaks 1\n")
    done = one(node, "pause", app.pid, "--deep")
    config.unlink()
    harness.equal((done["state"], done["deep"]["refusal"]["reason"]), ("failed", "CHECKPOINT_FAILED"), "the result")
    for _ in range(2):
        harness.equal(state(node, app), ("failed", False), "state by ps")
        for verb in ("resume", "pause"):
            refusal = node.expect(STATE, verb, app.pid)
            harness.holds("given up" in refusal.err, f"{verb}: {refusal.err.strip()}")
        node.kill_daemon()
        node.start_daemon(env=counting(node))
    app.kill()
    harness.wait_for("it is not listed", lambda: node.process(app.pid) is None)
    harness.holds(node.gpu_free() > free, "its memory must be free")


def counting(node):
    """For the daemon, whose helpers inherit it: how often they have called each function."""
    return {"SIM_COUNT_FILE": str(node.root / "counts-%p")}


def is_inside(node, call):
    """Whether a helper has begun that call."""
    for path in node.root.glob("counts-*"):
        for name, calls in struct.iter_unpack("56sQ", path.read_bytes()):
            if calls and name.rstrip(b"\0").decode() == call:
                return True
    return False


def helpers(daemon):
    found = []
    for name in os.listdir("/proc"):
        try:
            words = open(f"/proc/{name}/cmdline", "rb").read().split(b"\0") if name.isdigit() else []
            parent = open(f"/proc/{name}/stat").read().rpartition(")")[2].split()[1] if words else ""
        except OSError:
            continue
        if b"--driver-helper" in words and parent in (str(daemon), "1"):
            found.append(int(name))
    return found


def caught(node, call):
    """A program with a request that is now inside that call, for a second."""
    app = start(node)
    down = call in ("GetState", "Lock", "Checkpoint")
    if not down:
        node.expect(0, "pause", app.pid, "--policy", "disk", "--deep")
    for path in node.root.glob("counts-*"):
        path.unlink()
    node.faults(f"{named(call)} 1 wait {STUCK_MS}ms")
    words = ("pause", app.pid, "--policy", "disk", "--deep") if down else ("resume", app.pid)
    client = node.start_cli(*words)
    harness.wait_for(f"a helper is in {call}", lambda: is_inside(node, named(call)))
    return app, client


def dying_program(node):
    free = node.gpu_free()
    for call in CALLS:
        app, client = caught(node, call)
        app.kill()
        client.wait(harness.PATIENCE)
        node.faults()
        harness.wait_for("it is not listed", lambda pid=app.pid: node.process(pid) is None)
        harness.wait_for("its memory is free", lambda: node.gpu_free() == free)
        harness.wait_for("its scratch is gone", lambda: not node.scratch_entries())
        harness.wait_for("no helper is left", lambda: not helpers(node.daemon.pid))


def dying_daemon(node):
    """The next daemon asks the driver, and brings to its end what was interrupted."""
    for call in CALLS:
        app, _ = caught(node, call)
        app.ask_step()
        node.kill_daemon()
        node.faults()
        node.start_daemon(env=counting(node))
        node.expect(0, "resume", app.pid)
        app.stepped()
        harness.equal(state(node, app), ("running", False), f"state after a daemon's death in {call}")
        node.expect(0, "pause", app.pid, "--deep")
        works(node, app)
        app.finish()
        harness.wait_for("no helper is left", lambda: not helpers(node.daemon.pid))


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("faults come from the simulated driver")
    node.start_daemon(env=counting(node))
    app = start(node)
    failing_on_the_way_down(node, app)
    failing_undo(node, app)
    failing_on_the_way_back(node, app)
    app.finish()
    without_room(node)
    given_up(node)
    dying_program(node)
    dying_daemon(node)
    harness.equal(node.stop_daemon(), 0, "exit code of the daemon's orderly end")


harness.scenario(run, gpu_bytes="1G")
