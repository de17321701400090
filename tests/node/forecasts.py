"""A dry run says what a pause or resume would move, and every refusal that would come; a wait for free memory ends when it
is there. Nothing changes by either."""

import harness
import python_package

RESOURCES = 5


def pauses(parkade, client, node, app):
    forecast = client.forecast_pause(app.pid, policy="disk", tag_policies={"default": "host"})
    (process,) = forecast.processes
    (tag,) = process.tags
    harness.equal((tag.tag, tag.policy), ("default", parkade.Policy.HOST), "the tag and its policy")
    harness.holds(tag.host_bytes == process.host_bytes >= app.bytes and not process.disk_bytes, f"bytes by tier: {process}")
    harness.equal((forecast.refusals, forecast.seconds), ((), 0.0), "refusals, and seconds before anything was measured")
    (tag,) = client.forecast_pause(app.pid, policy="keep", tag_policies={"default": "discard"}).processes[0].tags
    harness.equal((tag.discarded_bytes >= app.bytes, tag.host_bytes), (True, 0), "bytes that would be lost")

    nowhere = f"{node.scratch}/missing"
    forecast = client.forecast_pause(app.pid, policy="disk", scratch_base=nowhere, tags="default,kv_cache", epoch=0)
    harness.equal([r.reason for r in forecast.refusals], ["UNKNOWN_TAG", "NO_FILE"], "all refusals at once")
    harness.holds(forecast.processes[0].disk_bytes >= app.bytes, "what it would move is said all the same")
    failure = parkade.errors.of(forecast.refusals[0])
    harness.equal((type(failure), failure.details["known_tags"]), (parkade.InvalidArgument, "default"), "a refusal as the call would raise it")
    harness.equal([r.reason for r in client.forecast_pause(4_000_000).refusals], ["NO_PROCESS"], "nobody there")
    done = node.expect(0, "pause", app.pid, "--dry-run")
    harness.holds("default" in done.out, f"what the command says: {done.out}")
    harness.equal(node.json("pause", app.pid, "--dry-run")["processes"][0]["host_bytes"] >= app.bytes, True, "and as JSON")
    harness.equal(node.state(app.pid), "running", "state after dry runs")
    harness.equal(client.list_operations(ended=True), [], "operations that dry runs left")


def resumes(parkade, client, node, app):
    client.pause(app.pid)
    forecast = client.forecast_resume(app.pid)
    harness.equal(forecast.refusals, (), "refusals where there is room")
    (gpu,) = forecast.processes[0].gpus
    harness.holds(gpu.needed_bytes >= app.bytes, f"the memory that it needs: {gpu}")
    taker = node.stepper("--buffers", 1, "--bytes", "700M", park=False)
    forecast = client.forecast_resume(app.pid)
    harness.equal([r.reason for r in forecast.refusals], ["GPU_MEMORY"], "refusals where there is none")
    harness.holds(f"{taker.pid}=" in forecast.refusals[0].metadata["holders"], f"who has it: {forecast.refusals[0]}")
    node.expect(RESOURCES, "resume", app.pid, "--wait", "1ms")
    done = node.cli("resume", app.pid, "--dry-run")
    harness.equal(done.code, RESOURCES, "exit code of a dry run that would be refused")

    uuid = client.get_node().gpus[0].uuid
    error = python_package.fails(parkade.ResourceExhausted, "GPU_MEMORY", lambda: client.wait_free(uuid, gpu.needed_bytes, wait_timeout=0.2), gpu_uuid=uuid, booked_bytes=0)
    harness.holds(f"{taker.pid}=" in error.details["holders"], f"who has it: {error}")
    python_package.fails(parkade.NotFound, "NO_GPU", lambda: client.wait_free("GPU-none", 1), gpu_uuid="GPU-none")
    python_package.fails(parkade.InvalidArgument, "BAD_SIZE", lambda: client.wait_free(uuid, 0))
    waits = node.start_cli("wait-free", "0", "600MiB", "--wait", "60s")
    taker.finish()
    harness.equal(waits.wait(harness.PATIENCE), 0, "exit code of the command that waited")
    free = client.wait_free(uuid, gpu.needed_bytes, wait_timeout=harness.PATIENCE)
    harness.holds(free.free_bytes >= gpu.needed_bytes, f"what is free then: {free}")
    harness.equal(client.forecast_pause(app.pid).processes[0].already, True, "a pause of what is paused")
    client.resume(app.pid)
    app.step()
    harness.holds(client.forecast_pause(app.pid).seconds > 0, "seconds, once a pause was measured")


def busy(parkade, client, node, app):
    node.faults(f"cuMemcpyDtoHAsync 2 wait 3000ms pid={app.pid}")
    id = python_package.begin(client, lambda: client.pause(app.pid))
    harness.wait_for("it moves bytes", lambda: node.state(app.pid) == "evicting")
    reasons = {r.reason for r in client.forecast_pause(app.pid).refusals}
    harness.equal(reasons, {"BUSY"}, "what a dry run says meanwhile")
    client.cancel_operation(id)
    node.faults()
    app.step()


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("it takes a whole GPU")
    parkade = python_package.load()
    node.start_daemon()
    app = node.stepper("--buffers", 3, "--bytes", "150M")
    app.step()
    with parkade.Client(str(node.runtime)) as client:
        pauses(parkade, client, node, app)
        resumes(parkade, client, node, app)
        busy(parkade, client, node, app)
    app.finish()


harness.scenario(run, gpu_bytes="1G")
