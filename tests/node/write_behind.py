"""A pause with write-behind answers when its bytes are in host memory; they go on to disk by themselves, and the memory comes
back for others. Whatever comes in the middle, a resume, a prefetch, a further pause, a wish to cancel, the end of the daemon or
of the program, loses no byte; a full disk is told of before anything moves."""

import beside_pause
import harness
import python_package

MIB = 1 << 20
EACH, BUFFERS = 100, 3
USAGE, RESOURCES = 2, 5


def behind(client, app, **options):
    """Paused with write-behind: what is in host memory then, at least the buffers that are no pattern, and the operation."""
    (result,) = client.pause(app.pid, write_behind=True, **options)
    harness.holds(result.host_bytes >= (BUFFERS - 1) * EACH * MIB and result.disk_bytes == 0, f"what the pause moved: {result}")
    return result.host_bytes, result.write_behind_id


def all_on_disk(client, app, stored):
    harness.wait_for("all is on disk", lambda: beside_pause.tiers(client, app) == (0, stored))


def whole(p, client, node, app):
    stored, id = behind(client, app)
    operation = client.wait_operation(id)
    harness.equal((operation.kind, operation.state, operation.failure), (p.OperationKind.WRITE_BEHIND, p.OperationState.DONE, None), "its operation")
    (result,) = operation.results
    harness.equal((result.pid, result.disk_bytes, result.left_bytes), (app.pid, stored, 0), "what went on")
    harness.equal(beside_pause.tiers(client, app), (0, stored), "backups by tier")
    harness.equal({a.place for a in client.get_process(app.pid).allocations} - {"host"}, {"disk"}, "places of the allocations")
    harness.holds(client.get_process(app.pid).process.host_pool_bytes >= stored, "the pool keeps the memory")
    (resumed,) = client.resume(app.pid)
    harness.equal(resumed.disk_bytes, stored, "what came from the disk")
    # Nothing has changed: nothing goes to host memory, and nothing has to follow.
    (again,) = client.pause(app.pid, write_behind=True)
    harness.equal((again.host_bytes, again.disk_bytes, again.write_behind_id), (0, 0, ""), "a pause of the same bytes")
    client.resume(app.pid)
    app.step()
    stored, id = behind(client, app, release_host=True)
    client.wait_operation(id)
    harness.wait_for("the memory is given back", lambda: client.get_process(app.pid).process.host_pool_bytes == 0)
    client.resume(app.pid)
    app.step()


def command_line(p, client, node, app):
    (result,) = node.json("pause", app.pid, "--write-behind")["results"]
    harness.equal(client.wait_operation(result["write_behind_id"]).state, p.OperationState.DONE, "the operation that it names")
    client.resume(app.pid)
    app.step()
    node.expect(USAGE, "pause", app.pid, "--write-behind", "--policy", "host")
    node.expect(USAGE, "pause", app.pid, "--release-host")
    python_package.fails(p.InvalidArgument, "BAD_POLICY", lambda: client.pause(app.pid, policy="host", write_behind=True))
    python_package.fails(p.InvalidArgument, "BAD_POLICY", lambda: client.pause(app.pid, release_host=True))


def full_disk(p, client, node, app):
    """Told beforehand: the program runs on with its bytes."""
    client.set_budget(disk_bytes=50 * MIB)
    python_package.fails(p.ResourceExhausted, "DISK_SPACE", lambda: client.pause(app.pid, write_behind=True), budget="node")
    harness.equal(node.state(app.pid), "running", "state after it")
    app.step()
    client.set_budget(disk_bytes=0)


def for_others(p, client, node, app):
    """The budget is enough for one of two: the second one's pause gets the memory that the first one's has left."""
    client.set_budget(host_bytes=(EACH * BUFFERS + 20) * MIB)
    second = node.stepper("--buffers", BUFFERS, "--bytes", f"{EACH}M")
    second.step()
    stored, id = behind(client, app)
    client.wait_operation(id)
    (result,) = client.pause(second.pid, policy="host")
    harness.holds(result.host_bytes >= (BUFFERS - 1) * EACH * MIB, f"what the second pause moved: {result}")
    harness.equal(beside_pause.tiers(client, app), (0, stored), "the first one's backup")
    for one in (second, app):
        client.resume(one.pid)
        one.step()
    # Where host memory has not room for all of it, the rest goes straight to the disk.
    client.set_budget(host_bytes=(EACH + 20) * MIB)
    for one in (second, app):
        node.expect(0, "resume", one.pid, "--release-host")
    (result,) = client.pause(app.pid, write_behind=True)
    harness.holds(0 < result.host_bytes <= (EACH + 20) * MIB < result.host_bytes + result.disk_bytes, f"what the pause moved: {result}")
    client.wait_operation(result.write_behind_id)
    harness.equal(beside_pause.tiers(client, app)[0], 0, "what is left in host memory")
    client.set_budget(host_bytes=0)
    client.resume(app.pid)
    app.step()
    second.finish()


def interrupted(p, client, node, app):
    stored = []

    def begin():
        bytes, id = behind(client, app)
        stored[:] = [bytes]
        return id

    failure = p.errors.of(beside_pause.struck(client, node, app, begin, "resume", app.pid).failure)
    harness.equal((type(failure), failure.reason, failure.details["pid"]), (p.Cancelled, "CANCELLED", str(app.pid)), "how it ended")
    app.step()

    operation = beside_pause.struck(client, node, app, begin, "cancel", "ID")
    harness.equal(p.errors.of(operation.failure).details["operation"], operation.id, "how it ended")
    on_host, on_disk = beside_pause.tiers(client, app)
    harness.equal(on_host + on_disk, stored[0], "bytes in one place or the other")
    harness.equal((operation.results[0].disk_bytes, operation.results[0].left_bytes), (on_disk, on_host), "what it says of that")
    client.verify(app.pid)
    client.resume(app.pid)
    app.step()

    # What is wanted in host memory is not taken away from there.
    failure = p.errors.of(beside_pause.struck(client, node, app, begin, "prefetch", app.pid).failure)
    harness.equal(failure.reason, "CANCELLED", "how it ended")
    harness.equal(beside_pause.tiers(client, app)[0], stored[0], "what is in host memory")
    client.resume(app.pid)
    app.step()

    # What only reads goes first; then the rest follows.
    id = begin()
    client.verify(app.pid)
    harness.equal(client.wait_operation(id).state, p.OperationState.DONE, "how it ended")
    harness.equal(beside_pause.tiers(client, app), (0, stored[0]), "backups by tier")
    client.resume(app.pid)
    app.step()


def daemons(p, client, node, app):
    """The next daemon goes on with it."""
    for end in (node.kill_daemon, node.stop_daemon):
        stored, id = behind(client, app)
        end()
        node.start_daemon()
        python_package.reaches(client)
        harness.wait_for("the next daemon adopts it", lambda: node.settled(app.pid) == "paused")
        all_on_disk(client, app, stored)
        client.resume(app.pid)
        app.step()


def handed_over(p, client, node, app):
    other = node.stepper("--buffers", 1, "--bytes", "50M")
    other.step()
    client.pause(other.pid, policy="host")
    results = {r.pid: r for r in client.handoff(app.pid, other.pid, write_behind=True)}
    other.step()
    harness.equal(client.wait_operation(results[app.pid].write_behind_id).state, p.OperationState.DONE, "what follows the handoff")
    harness.equal(beside_pause.tiers(client, app)[0], 0, "what is in host memory")
    client.handoff(other.pid, app.pid, policy="host")
    app.step()
    client.resume(other.pid)
    other.step()
    other.finish()


def killed(p, client, node, app):
    stored, id = behind(client, app)
    app.kill()
    operation = client.wait_operation(id)
    harness.holds(operation.end_time is not None, f"it has ended: {operation}")
    harness.wait_for("nothing of it is left", lambda: not node.scratch_entries())


def run(node):
    parkade = python_package.load()
    node.start_daemon()
    app = node.stepper("--buffers", BUFFERS, "--bytes", f"{EACH}M")
    app.step()
    with parkade.Client(str(node.runtime)) as client:
        whole(parkade, client, node, app)
        command_line(parkade, client, node, app)
        full_disk(parkade, client, node, app)
        for_others(parkade, client, node, app)
        interrupted(parkade, client, node, app)
        daemons(parkade, client, node, app)
        handed_over(parkade, client, node, app)
        killed(parkade, client, node, app)


harness.scenario(run)
