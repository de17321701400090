"""The step of colocated reinforcement learning: weights and cache leave, the weights come back and are written to in
place by the running engine, then the cache comes back; every byte is right, whatever fails between the steps."""

import sys

import harness
import python_package

PROGRAM = harness.TREE / "tests/apps/rollout.py"
WEIGHTS, CACHE, OTHER = 48 << 20, 70 << 20, 3 << 20
STUCK_MS = 2000


def engine(node):
    app = node.start(sys.executable, PROGRAM, env={"PYTHONPATH": str(harness.BUILD / "python")})
    app.until("ready")
    harness.wait_for("the engine is listed", lambda: node.state(app.pid) == "running")
    for name, size, tag in (("model", WEIGHTS, "weights"), ("bias", 5000, "weights"), ("cache", CACHE, "kv_cache"),
                            ("blocks", 2 << 20, "kv_cache"), ("scratch", OTHER, "activations")):
        tell(app, f"allocate {name} {size} {tag}", "allocated")
    return app


def tell(app, line, wanted):
    app.say(line)
    harness.equal(app.line(), wanted, line)


def right(app, *names):
    for name in names:
        tell(app, f"check {name}", "right")


def everything(app):
    right(app, "model", "bias", "cache", "blocks", "scratch")


def places(node, app):
    """Where each tag is, by the summary that `show` has of it."""
    found = {}
    for entry in node.json("show", app.pid)["tags"]:
        found.setdefault(entry["tag"], set()).add(entry["place"])
    return {tag: "+".join(sorted(at)) for tag, at in found.items()}


def result(node, *words):
    return node.json(*words)["results"][0]


def is_partly(node, app, **wanted):
    """Paused, its gate open, and its tags at these places."""
    process = node.process(app.pid)
    harness.equal((process["state"], process["gate_mode"]), ("paused", "open"), "state and gate")
    harness.equal(places(node, app), wanted, "places by tag")


def sequence(node, app, *options):
    """One step; the cache's and the weights' policies are in the options."""
    before = node.gpu_free()
    out = result(node, "pause", app.pid, "--tags", "kv_cache,weights", *options)
    harness.equal((out["state"], out["already"]), ("paused", False), "the pause")
    away = places(node, app)
    harness.equal(away["activations"], "gpu", "what was not named")
    harness.holds(node.gpu_free() >= before + WEIGHTS + CACHE - harness.DRIVER_OWN_BYTES, "HBM of both is free")
    part = result(node, "resume", app.pid, "--tags", "weights")
    harness.equal((part["state"], part["already"]), ("paused", False), "the resume of the weights")
    is_partly(node, app, weights="gpu", kv_cache=away["kv_cache"], activations="gpu")
    # The engine runs, and writes to what it has.
    right(app, "model", "bias", "scratch")
    tell(app, "update model", "updated")
    tell(app, "update scratch", "updated")
    harness.equal(result(node, "resume", app.pid, "--tags", "weight")["already"], True, "already, of the weights")
    rest = result(node, "resume", app.pid, "--tags", "kv_cache")
    harness.equal(rest["state"], "running", "the resume of the cache")
    everything(app)
    harness.equal(set(places(node, app).values()), {"gpu"}, "places by tag after all")
    return away


def sequences(node, app):
    harness.equal(sequence(node, app)["kv_cache"], "host", "where the cache was")
    away = sequence(node, app, "--policy", "disk")
    harness.equal((away["kv_cache"], away["weights"]), ("disk", "disk"), "where they were")
    away = sequence(node, app, "--tag-policy", "kv_cache=disk", "--tag-policy", "weights=host")
    harness.equal((away["kv_cache"], away["weights"]), ("disk", "host"), "where they were")


def strict(node, app):
    """With the gate closed nothing runs until the tags are back."""
    node.expect(0, "pause", app.pid, "--tags", "kv_cache,weights")
    node.expect(0, "resume", app.pid, "--tags", "weights", "--gate", "closed")
    harness.equal(node.process(app.pid)["gate_mode"], "closed", "the gate")
    app.say("check model")
    harness.wait_for("the engine waits at the gate", lambda: node.process(app.pid)["gated_threads"] == 1)
    node.expect(0, "resume", app.pid, "--tags", "kv_cache", "--gate", "closed")
    harness.equal(app.line(), "right", "what waited")
    everything(app)


def further(node, app):
    """What is allocated and what came back between the steps leaves with the next pause; both disks' worth is whole."""
    for first, second in (("host", "disk"), ("disk", "host"), ("disk", "disk")):
        node.expect(0, "pause", app.pid, "--tags", "kv_cache,weights", "--policy", first)
        node.expect(0, "resume", app.pid, "--tags", "weights")
        tell(app, f"allocate more {20 << 20} kv_cache", "allocated")
        tell(app, "update model", "updated")
        free = node.gpu_free()
        again = result(node, "pause", app.pid, "--tags", "kv_cache,weights", "--policy", second)
        harness.holds(not again["already"], "the further pause")
        harness.equal(node.process(app.pid)["gate_mode"], "closed", "the gate")
        harness.holds(node.gpu_free() >= free + WEIGHTS - harness.DRIVER_OWN_BYTES, "HBM of the weights is free again")
        harness.equal(result(node, "pause", app.pid, "--tags", "weights")["already"], True, "already, of what is out")
        # The rest of the program follows, and then all comes back.
        node.expect(0, "pause", app.pid)
        harness.equal("gpu" in places(node, app).values(), False, "anything in HBM after a full pause")
        node.expect(0, "resume", app.pid, "--tags", "kv_cache,weights")
        right(app, "cache", "blocks", "more", "model", "bias")
        node.expect(0, "resume", app.pid)
        everything(app)
        tell(app, "free more", "freed")


def refusals(node, app):
    node.expect(2, "resume", app.pid, "--tags", "optimizer")
    node.expect(2, "resume", app.pid, "--gate", "closed")
    node.expect(0, "pause", app.pid)
    failed = node.expect(2, "resume", app.pid, "--tags", "optimizer")
    for word in ("optimizer", "kv_cache", "weights", "UNKNOWN_TAG"):
        harness.holds(word in failed.err, f"the error names {word}: {failed.err}")
    harness.equal(node.state(app.pid), "paused", "state after it")
    node.expect(0, "resume", app.pid, "--tags", "optimizer", "--allow-empty")
    node.expect(0, "resume", app.pid, "--tags", "weights")
    failed = node.expect(4, "resume", app.pid, "--tags", "kv_cache", "--gate", "closed")
    harness.holds("GATE_OPEN" in failed.err, f"the error: {failed.err}")
    node.expect(0, "resume", app.pid)
    everything(app)


def forecasts(node, parkade, client, app):
    client.pause(app.pid, tags=["kv_cache", "weights"])
    (back,) = client.forecast_resume(app.pid, tags=["weights"]).processes
    harness.equal((back.already, back.host_bytes), (False, WEIGHTS + 5000), "what would come back")
    harness.holds(WEIGHTS <= back.gpus[0].needed_bytes < WEIGHTS + CACHE, f"what that needs: {back}")
    (part,) = client.resume(app.pid, tags=["weights"], gate_mode="open", request_id="part")
    harness.equal(client.resume(app.pid, tags=["weights"], gate_mode="open", request_id="part"), [part], "its answer again")
    harness.equal(client.forecast_resume(app.pid, tags="weights").processes[0].already, True, "the forecast of what is back")
    (out,) = client.forecast_pause(app.pid, tags=["kv_cache", "weights"]).processes
    harness.equal((out.already, out.host_bytes), (False, WEIGHTS + 8192), "what a further pause would move")
    (cache,) = client.forecast_pause(app.pid, tags=["kv_cache"], gate_mode="open").processes
    harness.equal(cache.already, True, "the forecast of a pause of what is out")
    harness.equal(places(node, app)["weights"], "gpu", "forecasts move nothing")
    client.resume(app.pid)
    everything(app)


def graph(node, app):
    """A graph over both tags, captured before, replays when both are back."""
    tell(app, "capture blocks cache", "captured")
    tell(app, "replay", "right")
    for policy in ("host", "disk"):
        node.expect(0, "pause", app.pid, "--tags", "kv_cache,weights", "--policy", policy)
        node.expect(0, "resume", app.pid, "--tags", "weights")
        tell(app, "update model", "updated")
        node.expect(0, "resume", app.pid, "--tags", "kv_cache")
        tell(app, "replay", "right")
    everything(app)


def cancelled(node, client, app):
    """A further pause that is cancelled while it moves leaves what was out where it was, and the engine running."""
    client.pause(app.pid, tags=["kv_cache", "weights"], tag_policies={"kv_cache": "disk"})
    client.resume(app.pid, tags=["weights"])
    tell(app, "update model", "updated")
    node.faults(f"cuMemcpyDtoHAsync 2 wait {STUCK_MS}ms pid={app.pid}")
    id = python_package.begin(client, lambda: client.pause(app.pid))
    harness.wait_for("it moves bytes", lambda: node.state(app.pid) == "evicting")
    client.cancel_operation(id)
    node.faults()
    is_partly(node, app, weights="gpu", kv_cache="disk", activations="gpu")
    right(app, "model", "bias", "scratch")
    client.resume(app.pid)
    everything(app)


def without_room(node, app):
    """Tags that do not fit stay out, all of them, and nothing else has changed."""
    node.expect(0, "pause", app.pid, "--tags", "kv_cache,weights")
    taker = node.stepper("--buffers", 1, "--bytes", str(node.gpu_free() - (WEIGHTS + CACHE // 2)), park=False)
    node.expect(0, "resume", app.pid, "--tags", "weights")
    failed = node.cli("resume", app.pid, "--tags", "kv_cache")
    harness.holds("GPU_MEMORY" in failed.err, f"the error: {failed.err}")
    is_partly(node, app, weights="gpu", kv_cache="host", activations="gpu")
    right(app, "model", "bias")
    taker.finish()
    node.expect(0, "resume", app.pid, "--tags", "kv_cache", "--wait", "30s")
    everything(app)


def next_daemon(node, app):
    """The daemon is killed between the steps; the next one goes on with them."""
    node.expect(0, "pause", app.pid, "--tags", "kv_cache,weights", "--policy", "disk")
    node.expect(0, "resume", app.pid, "--tags", "weights")
    node.kill_daemon()
    right(app, "model")
    tell(app, "update model", "updated")
    node.start_daemon()
    harness.wait_for("the next daemon adopts the engine", lambda: node.settled(app.pid) == "paused")
    is_partly(node, app, weights="gpu", kv_cache="disk", activations="gpu")
    node.expect(0, "pause", app.pid, "--policy", "disk")
    node.kill_daemon()
    node.start_daemon()
    harness.wait_for("the next daemon adopts the engine", lambda: node.settled(app.pid) == "paused")
    node.expect(0, "resume", app.pid, "--tags", "kv_cache")
    right(app, "cache", "blocks")
    node.expect(0, "resume", app.pid)
    everything(app)
    harness.equal(len(node.scratch_entries()), 1, "scratch directories")


def handoffs(node, app):
    """Who is paused in part goes out with the rest, and comes in with the rest."""
    other = node.stepper("--buffers", 2, "--bytes", "30M")
    other.step()
    node.expect(0, "pause", other.pid)
    node.expect(0, "pause", app.pid, "--tags", "kv_cache,weights", "--policy", "disk")
    node.expect(0, "resume", app.pid, "--tags", "weights")
    tell(app, "update model", "updated")
    node.expect(0, "handoff", "--out", app.pid, "--in", other.pid, "--policy", "disk")
    harness.equal((node.state(app.pid), node.state(other.pid)), ("paused", "running"), "states after the first")
    harness.holds("gpu" not in places(node, app).values(), "what of the engine is in HBM")
    other.step()
    node.expect(0, "resume", app.pid, "--tags", "weights")
    node.expect(0, "handoff", "--out", other.pid, "--in", app.pid)
    harness.equal((node.state(app.pid), node.state(other.pid)), ("running", "paused"), "states after the second")
    everything(app)
    node.expect(0, "resume", other.pid)
    other.step()
    other.finish()


def handoff_of_the_rest(node, app):
    """What is out already makes no room, and takes none of what leaves either."""
    other = node.stepper("--buffers", 1, "--bytes", "30M")
    other.step()
    node.expect(0, "pause", other.pid)
    node.expect(0, "pause", app.pid, "--tags", "kv_cache")
    taker = node.stepper("--buffers", 1, "--bytes", str(node.gpu_free() - (40 << 20)), park=False)
    node.expect(0, "handoff", "--out", app.pid, "--tags", "weights", "--in", other.pid)
    harness.equal(places(node, app), {"weights": "host", "kv_cache": "host", "activations": "gpu"}, "places after it")
    other.step()
    taker.finish()
    node.expect(0, "resume", app.pid)
    everything(app)
    other.finish()


def within_budget(node, app):
    """What is out on disk counts when more is to go there."""
    node.expect(0, "budget", "--disk", str(CACHE + (8 << 20)))
    node.expect(0, "pause", app.pid, "--tags", "kv_cache", "--policy", "disk")
    refused = node.expect(5, "pause", app.pid, "--tags", "weights", "--policy", "disk")
    harness.holds("the budget of the node" in refused.err, f"the sentence: {refused.err}")
    harness.equal(places(node, app), {"weights": "gpu", "kv_cache": "disk", "activations": "gpu"}, "places after the refusal")
    node.expect(0, "budget", "--disk", "none")
    node.expect(0, "pause", app.pid, "--tags", "weights", "--policy", "disk")
    node.expect(0, "resume", app.pid)
    everything(app)


def killed(node, app):
    node.expect(0, "pause", app.pid, "--tags", "kv_cache,weights", "--policy", "disk")
    node.expect(0, "resume", app.pid, "--tags", "weights")
    app.kill()
    harness.wait_for("it is gone, and its scratch", lambda: node.process(app.pid) is None and not node.scratch_entries())


def run(node):
    parkade = python_package.load()
    node.env["PARKADE_ELISION"] = "off"  # every byte is to move, also one that has not changed
    node.start_daemon()
    app = engine(node)
    sequences(node, app)
    strict(node, app)
    further(node, app)
    refusals(node, app)
    with parkade.Client(str(node.runtime)) as client:
        forecasts(node, parkade, client, app)
        if not harness.ON_CARD:
            cancelled(node, client, app)
    graph(node, app)
    if not harness.ON_CARD:
        without_room(node, app)
    next_daemon(node, app)
    handoffs(node, app)
    if not harness.ON_CARD:
        handoff_of_the_rest(node, app)
    within_budget(node, app)
    killed(node, app)


harness.scenario(run, gpu_bytes="1G")
