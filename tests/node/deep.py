"""A deep pause gives back what a plain one leaves of a process, context and modules; a resume brings all of it, and what
speaks against it is said while the plain pause stands. Prints what is left, the seconds and the rates around it."""

import signal

import harness

FOREIGN = harness.TREE / "tests/apps/foreign.py"
BUFFERS, BYTES = (8, "512M") if harness.ON_CARD else (4, "16M")
LEFT_BYTES = 16 << 20 if harness.ON_CARD else 0
MORE_SECONDS = 1.5  # than the plain pause; the simulated one has only to answer
RATE_LOSS = 0.8  # of the rate before, at least
MIB = 1 << 20


def one(node, *words):
    return node.json(*words)["results"][0]


def deep_of(node, pid):
    return node.process(pid)["deep"]


def plain_round(node, app, what):
    """A pause and a resume in which all bytes move: what is free in between, seconds out, and GB/s both ways."""
    out = one(node, "pause", app.pid, "--policy", "host", "--elision", "off")
    free = node.gpu_free()
    back = one(node, "resume", app.pid)
    app.step()
    rates = [r["host_bytes"] / r["move_seconds"] / 1e9 for r in (out, back)]
    print(f"{what}: {out['total_seconds']:.3f} s out, {rates[0]:.1f} GB/s, {back['total_seconds']:.3f} s back, {rates[1]:.1f} GB/s")
    return free, out["total_seconds"], rates


def marks(node):
    node.start_daemon()
    free = node.gpu_free()
    app = node.verifier("--buffers", BUFFERS, "--bytes", BYTES)
    app.step()
    plain_round(node, app, "plain pause, cold")
    plainly_free, seconds, before = plain_round(node, app, "plain pause")
    residue = free - plainly_free
    print(f"a plain pause leaves {residue / MIB:.1f} MiB")

    done = one(node, "pause", app.pid, "--policy", "host", "--elision", "off", "--deep")
    step = done["deep"]
    harness.equal(step["refusal"], None, "refusal of the deep step")
    harness.equal((done["state"], step["deep"]), ("paused", True), "state and depth of the result")
    still = free - node.gpu_free()
    more = done["total_seconds"] - seconds
    print(f"a deep pause leaves {still / MIB:.1f} MiB: {step['freed_bytes'] / MIB:.1f} MiB in {step['seconds']:.3f} s, {more:.3f} s more")
    harness.holds(still <= LEFT_BYTES, f"a deep pause leaves {still} bytes")
    harness.holds(step["freed_bytes"] >= residue - MIB - harness.DRIVER_OWN_BYTES, f"freed by the step: {step}")
    harness.holds(more <= MORE_SECONDS, f"{more:.3f} s more than the plain pause")
    harness.holds(deep_of(node, app.pid), "ps must say that it is deep")
    shown = node.expect(0, "ps").out
    harness.holds("paused deep" in shown, f"the table must say so: {shown}")

    # What a backup holds can be read: that touches no GPU. Pausing again changes nothing.
    node.expect(0, "verify", app.pid)
    harness.equal(one(node, "pause", app.pid)["already"], True, "a pause of what is deep")
    again = one(node, "pause", app.pid, "--deep")
    harness.equal((again["already"], again["deep"]["deep"]), (True, True), "a deep pause of what is deep")

    app.ask_step()
    back = one(node, "resume", app.pid)
    print(f"back in {back['total_seconds']:.3f} s, of which the driver {back['deep']['seconds']:.3f} s")
    harness.equal((back["state"], back["deep"]["deep"]), ("running", False), "after the resume")
    app.stepped()
    _, _, after = plain_round(node, app, "plain pause afterwards")
    if harness.ON_CARD:
        for was, now, way in zip(before, after, ("out", "back")):
            harness.holds(now >= RATE_LOSS * was, f"{now:.1f} GB/s {way}, {was:.1f} before")

    # What is paused already goes deep by the same call.
    node.expect(0, "pause", app.pid)
    later = one(node, "pause", app.pid, "--deep")
    harness.equal((later["already"], later["deep"]["deep"]), (True, True), "deep from a plain pause")
    node.expect(0, "resume", app.pid)
    app.step()
    app.finish()


def refused(node, app, reason, *options):
    """A deep pause that is a plain one in the end."""
    done = one(node, "pause", app.pid, "--deep", *options)
    harness.equal((done["state"], done["deep"]["deep"]), ("paused", False), "state and depth")
    harness.equal(done["deep"]["refusal"]["reason"], reason, f"refusal: {done['deep']['refusal']}")
    harness.equal(deep_of(node, app.pid), False, "depth by ps")
    node.expect(0, "resume", app.pid)


def foreign(node, kind, size):
    """What the driver's checkpoint does not take by our word, and what it is asked to take."""
    app = node.start("python3", FOREIGN)
    harness.equal(app.line(), "ready", "first line of the program")
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")

    def ask(wanted, *words):
        app.say(" ".join(map(str, words)))
        harness.equal(app.line(), wanted, f"the answer to {words}")

    ask("made", "plain", 5 << 20)
    ask("made", kind, size)
    if kind == "managed":
        refused(node, app, "FOREIGN_MEMORY")
    else:
        done = one(node, "pause", app.pid, "--deep")
        step = done["deep"]
        print(f"{kind} memory: " + (f"deep in {step['seconds']:.3f} s" if step["deep"] else f"refused: {step['refusal']}"))
        harness.holds(step["deep"] or harness.ON_CARD, f"the simulated driver takes {kind} memory: {step}")
        node.expect(0, "resume", app.pid)
    ask("right", "check")
    app.end()


def refusals(node):
    app = node.stepper("--buffers", 2, "--bytes", "3M")
    app.step()
    # Something stays in HBM.
    refused(node, app, "NOT_ALL_OUT", "--tag-policy", "default=keep")
    app.step()
    node.expect(2, "pause", app.pid, "--deep", "--gate", "open")
    harness.equal(node.state(app.pid), "running", "state after a request that contradicts itself")
    app.step()
    app.finish()
    foreign(node, "managed", 96 << 20)
    for kind in ("pool", "graph", "pin"):
        foreign(node, kind, 48 << 20)


def group(node):
    """All ranks of a request or none."""
    ranks = [node.stepper("--buffers", 2, "--bytes", "3M", env={"PARKADE_JOB": "rl", "RANK": str(r)}) for r in range(2)]
    for app in ranks:
        app.step()
    for result in node.json("pause", "--job", "rl", "--deep")["results"]:
        harness.equal(result["deep"]["deep"], True, f"depth of a rank: {result}")
    node.expect(0, "resume", "--job", "rl")
    for app in ranks:
        app.step()

    other = node.start("python3", FOREIGN, env={"PARKADE_JOB": "rl", "RANK": "2"})
    harness.equal(other.line(), "ready", "first line of the program")
    harness.wait_for("it is listed as running", lambda: node.state(other.pid) == "running")
    other.say(f"managed {8 << 20}")
    harness.equal(other.line(), "made", "managed memory")
    results = {r["pid"]: r for r in node.json("pause", "--job", "rl", "--deep")["results"]}
    harness.equal(results[other.pid]["deep"]["refusal"]["reason"], "FOREIGN_MEMORY", "who refuses")
    for app in ranks:
        refusal = results[app.pid]["deep"]["refusal"]
        harness.equal(refusal["reason"], "PEER_REFUSED", "who goes with it")
        harness.equal(refusal["metadata"]["peer_pid"], str(other.pid), "whom it names")
        harness.equal((node.state(app.pid), deep_of(node, app.pid)), ("paused", False), "its state")
    node.expect(0, "resume", "--job", "rl")
    for app in ranks:
        app.step()
        app.finish()
    other.end()


def endings(node):
    """Whoever ends while deep leaves nothing; a daemon that ends leaves what the next one knows."""
    free = node.gpu_free()
    for number in (signal.SIGKILL, signal.SIGTERM):
        app = node.verifier("--buffers", 2, "--bytes", "30M")
        app.step()
        node.expect(0, "pause", app.pid, "--policy", "disk", "--deep")
        app.process.send_signal(number)
        app.process.wait(harness.PATIENCE)
        harness.wait_for("it is not listed", lambda pid=app.pid: node.process(pid) is None)
        harness.wait_for("its memory is free", lambda: node.gpu_free_is(free))
        harness.wait_for("its scratch is gone", lambda: not node.scratch_entries())
    for end in (node.kill_daemon, node.stop_daemon):
        app = node.stepper("--buffers", 2, "--bytes", "30M")
        app.step()
        node.expect(0, "pause", app.pid, "--deep")
        app.ask_step()
        end()
        node.start_daemon()
        harness.equal((node.state(app.pid), deep_of(node, app.pid)), ("paused", True), "what the next daemon says")
        node.expect(0, "resume", app.pid)
        app.stepped()
        app.finish()


def handoff(node):
    """Who is deep comes in by a handoff too."""
    trainer, engine = (node.verifier("--buffers", 2, "--bytes", "64M") for _ in range(2))
    trainer.step()
    node.expect(0, "pause", trainer.pid, "--deep")
    engine.step()
    results = {r["pid"]: r for r in node.json("handoff", "--out", engine.pid, "--in", trainer.pid)["results"]}
    harness.equal(results[trainer.pid]["deep"]["deep"], False, "depth of who came in")
    harness.equal((node.state(engine.pid), node.state(trainer.pid)), ("paused", "running"), "states")
    trainer.step()
    node.expect(0, "resume", engine.pid)
    engine.step()
    trainer.finish()
    engine.finish()


def behind(node):
    """A write-behind, and the wish to prefetch, end where the driver has the process."""
    app = node.stepper("--buffers", 4, "--bytes", "32M")
    app.step()
    paused = one(node, "pause", app.pid, "--write-behind", "--release-host")
    harness.equal(one(node, "pause", app.pid, "--deep")["deep"]["deep"], True, "depth of what is written behind")
    harness.wait_for("the write-behind has ended", lambda: next(
        o for o in node.json("ops", "--ended")["operations"] if o["id"] == paused["write_behind_id"])["state"] != "running")
    refused = node.expect(4, "prefetch", app.pid).err
    harness.holds("IS_DEEP" in refused, f"a prefetch of what is deep: {refused}")
    node.expect(2, "pause", app.pid, "--deep", "--write-behind")
    node.expect(0, "resume", app.pid)
    app.step()
    app.finish()


def run(node):
    marks(node)
    behind(node)
    refusals(node)
    group(node)
    endings(node)
    handoff(node)


harness.scenario(run)
