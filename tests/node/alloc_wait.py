"""An allocation that finds no room says so in `show`, and with PARKADE_ALLOC_WAIT waits for room: until another process
is paused or ends, through pauses of its own process, and no longer than it was told to."""

import time

import harness

PROGRAM = harness.TREE / "tests/apps/allocating.py"
HELD, WANTED, OWN = "320M", 240 << 20, 4096
OUT_OF_MEMORY = 2


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("fills a whole GPU: on the simulated one only")
    node.start_daemon()
    holder = node.stepper("--buffers", 1, "--bytes", HELD, env={"PARKADE_JOB": "rl", "PARKADE_ROLE": "rollout"})

    def start(seconds=None):
        app = node.start("python3", PROGRAM, env={"PARKADE_ALLOC_WAIT": seconds} if seconds else {})
        harness.equal(app.line(), "ready", "first line of the program")
        harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")
        app.say(f"small 1 {OWN}")
        app.line()
        return app

    def events(app):
        return node.json("show", app.pid)["process"]["events"]

    def attempt(app):
        app.say(f"try {WANTED}")

    # Off by default: native, and said.
    app = start()
    attempt(app)
    harness.equal(app.line(), f"error {OUT_OF_MEMORY}", "an allocation without room")
    said = events(app)
    harness.equal(len(said), 1, f"events: {said}")
    harness.holds(f"of {WANTED} bytes on device 0 failed" in said[0] and "are free" in said[0], f"the event: {said[0]}")
    holders = f"; held by {holder.pid} (rl/rollout) "
    harness.wait_for("the event names who holds the memory", lambda: holders in events(app)[0])
    harness.holds(events(app)[0] in node.expect(0, "show", app.pid).out, "show prints the event")

    # No longer than told.
    app = start("1")
    begin = time.monotonic()
    attempt(app)
    harness.equal(app.line(), f"error {OUT_OF_MEMORY}", "an allocation without room")
    harness.holds(1 <= time.monotonic() - begin < 10, f"waited {time.monotonic() - begin} s")
    harness.holds("after a wait of 1." in events(app)[0], f"the event: {events(app)}")
    # More than the GPU has is not waited for.
    app = start("60")
    app.say("try 1T")
    harness.equal(app.line(5), f"error {OUT_OF_MEMORY}", "an allocation larger than the GPU")

    # It gets what the pause of another process frees, and is itself paused and resumed while it waits.
    attempt(app)
    for policy in ("host", "disk"):
        node.expect(0, "pause", app.pid, "--policy", policy, "--drain-timeout", "5s")
        harness.equal(node.state(app.pid), "paused", "state of a program that waits for memory")
        node.expect(0, "resume", app.pid)
    harness.equal(len(events(app)), 1, "events while it waits")
    node.expect(0, "pause", holder.pid)
    harness.equal(app.line(), "ok", "an allocation that another's pause made room for")
    app.say("drop")
    harness.equal(app.line(), "dropped", "freeing it")
    node.expect(0, "resume", holder.pid)
    holder.step()

    # Handles of the program's own wait likewise.
    app.say(f"create {WANTED}")
    time.sleep(0.1)
    node.expect(0, "pause", holder.pid)
    harness.equal(app.line(), "ok", "a handle that another's pause made room for")
    app.say("release")
    harness.equal(app.line(), "released", "giving it back")
    node.expect(0, "resume", holder.pid)
    holder.step()

    # Memory that comes free while its process is paused is taken when that resumes.
    attempt(app)
    node.expect(0, "pause", app.pid)
    holder.kill()
    node.expect(0, "resume", app.pid)
    harness.equal(app.line(), "ok", "an allocation that the end of another process made room for")


harness.scenario(run, gpu_bytes="512M")
