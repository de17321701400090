"""Backups on disk come to host memory before their programs are resumed: as much as the budget has room for, every byte
verified, and whatever comes in the middle, a resume, a wish to cancel, the end of the daemon or of the program, loses none."""

import beside_pause
import harness
import python_package

MIB = 1 << 20
EACH, BUFFERS = 100, 3
STATE = 4


def to_disk(client, app):
    """What there is on disk then: the first buffer may be one pattern, of which nothing is stored."""
    client.pause(app.pid, policy="disk")
    on_host, on_disk = beside_pause.tiers(client, app)
    harness.holds(on_host == 0 and on_disk >= (BUFFERS - 1) * EACH * MIB, f"{on_host} in host memory and {on_disk} on disk")
    return on_disk


def whole(p, client, node, app):
    moved = to_disk(client, app)
    (result,) = client.prefetch(app.pid, request_id="whole")
    harness.equal((result.state, result.host_bytes, result.left_bytes), (p.ProcessState.PAUSED, moved, 0), "what came")
    operation = client.get_operation(request_id="whole")
    harness.equal((operation.kind, operation.state), (p.OperationKind.PREFETCH, p.OperationState.DONE), "its operation")
    harness.equal(beside_pause.tiers(client, app), (moved, moved), "backups by tier")
    places = {a.place for a in client.get_process(app.pid).allocations}
    harness.equal(places, {"host"}, "places of the allocations")
    harness.equal(client.prefetch(app.pid)[0].already, True, "a second one finds nothing to do")
    (resumed,) = client.resume(app.pid)
    harness.equal((resumed.host_bytes, resumed.disk_bytes), (moved, 0), "what the resume moved")
    # The files still have it all.
    (again,) = client.pause(app.pid, policy="disk")
    harness.equal((again.host_bytes, again.disk_bytes), (0, 0), "what the next pause moved")
    client.resume(app.pid)
    app.step()


def bounded(p, client, node, app):
    """As much as the budget has room for."""
    node.expect(0, "resume", app.pid, "--release-host")
    stored = to_disk(client, app)
    held = client.get_process(app.pid).process.host_pool_bytes
    client.set_budget(host_bytes=held + 60 * MIB)
    (part,) = client.prefetch(app.pid)
    harness.holds(0 < part.host_bytes <= held + 60 * MIB, f"{part.host_bytes} came, with {held} in the pool")
    harness.equal(part.host_bytes + part.left_bytes, stored, "what came, and what did not")
    harness.equal(beside_pause.tiers(client, app), (part.host_bytes, stored), "backups by tier")
    pool = client.get_process(app.pid).process.host_pool_bytes
    harness.holds(pool <= held + (60 + 64) * MIB, f"{pool} bytes of host memory, 64 MiB of it to pass through")
    client.set_budget(host_bytes=0)
    client.resume(app.pid)
    app.step()

    # A neighbour has taken all that there is.
    neighbour = node.stepper("--buffers", 1, "--bytes", "50M")
    neighbour.step()
    client.pause(app.pid, policy="disk")
    client.pause(neighbour.pid, policy="host")
    node.expect(0, "resume", app.pid, "--release-host")
    app.step()
    client.pause(app.pid, policy="disk", chunk_bytes=16 * MIB)
    client.set_budget(host_bytes=50 * MIB)
    before = beside_pause.tiers(client, app)
    python_package.fails(p.ResourceExhausted, "HOST_MEMORY", lambda: client.prefetch(app.pid), free_bytes=0)
    harness.equal(beside_pause.tiers(client, app), before, "backups by tier")
    client.set_budget(host_bytes=0)
    client.resume(app.pid)
    client.resume(neighbour.pid)
    neighbour.step()
    neighbour.finish()
    app.step()


def changed(p, client, node, app):
    """A block that is not what was stored is told of, and stays; the others come."""
    stored = to_disk(client, app)
    scratch = client.get_process(app.pid).process.scratch_dir
    with open(f"{scratch}/data.0", "r+b", buffering=0) as file:
        place = 150_000_001
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 1]))
        error = python_package.fails(p.DataLoss, "BACKUP_CORRUPT", lambda: client.prefetch(app.pid), pid=app.pid, path=scratch, wrong_blocks=1)
        result = client.get_operation(error.details["operation"]).results[0]
        (block,) = result.wrong_blocks
        harness.equal((block.place, block.missing), ("disk", False), "what is wrong")
        harness.holds(block.offset <= place < block.offset + block.bytes, f"the place of {block}")
        harness.equal((result.host_bytes, result.left_bytes), (stored - block.bytes, block.bytes), "all others have come")
        harness.equal(node.state(app.pid), "paused", "state after it")
        file.seek(place)
        file.write(byte)
    (result,) = client.prefetch(app.pid)
    harness.equal(result.host_bytes, block.bytes, "what was left")
    client.resume(app.pid)
    app.step()


def interrupted(p, client, node, app):
    def begin():
        to_disk(client, app)
        return python_package.begin(client, lambda: client.prefetch(app.pid))

    failure = p.errors.of(beside_pause.struck(client, node, app, begin, "resume", app.pid).failure)
    harness.equal((type(failure), failure.reason), (p.Cancelled, "CANCELLED"), "how the prefetch ended")
    app.step()

    # It must not be in the driver when that takes the process.
    failure = p.errors.of(beside_pause.struck(client, node, app, begin, "pause", app.pid, "--deep").failure)
    harness.equal((type(failure), failure.reason), (p.Cancelled, "CANCELLED"), "how the prefetch ended at a deep pause")
    client.resume(app.pid)
    app.step()

    operation = beside_pause.struck(client, node, app, begin, "cancel", "ID")
    harness.equal(p.errors.of(operation.failure).details["operation"], operation.id, "how it ended")
    on_host, on_disk = beside_pause.tiers(client, app)
    harness.equal((operation.results[0].host_bytes, operation.results[0].left_bytes), (on_host, on_disk - on_host), "what it says that it has moved")
    client.verify(app.pid)
    client.prefetch(app.pid)
    harness.equal(beside_pause.tiers(client, app), (on_disk, on_disk), "the rest came with the next one")
    client.resume(app.pid)
    app.step()


def killed(p, client, node, app):
    """The next daemon knows what is where; of a program that has ended nothing is left."""
    stored = to_disk(client, app)
    for attempt in range(20):
        id = python_package.begin(client, lambda: client.prefetch(app.pid))
        harness.wait_for("it moves or has ended", lambda: beside_pause.moves(client, app) or client.get_operation(id).end_time is not None)
        node.kill_daemon()
        node.start_daemon()
        python_package.reaches(client)
        harness.wait_for("the next daemon adopts it", lambda: node.settled(app.pid) == "paused")
        on_host, on_disk = beside_pause.tiers(client, app)
        harness.equal(on_disk, stored, "what is on disk")
        if 0 < on_host < stored:
            break
        client.resume(app.pid)
        app.step()
        stored = to_disk(client, app)
    harness.holds(0 < on_host < stored, f"{on_host} came to host memory, in {attempt + 1} attempts")
    (rest,) = client.prefetch(app.pid)
    harness.equal(rest.host_bytes, stored - on_host, "the rest comes with the next daemon")
    client.resume(app.pid)
    app.step()

    client.pause(app.pid, policy="disk")
    id = python_package.begin(client, lambda: client.prefetch(app.pid))
    app.kill()
    operation = client.wait_operation(id)
    harness.holds(operation.failure is None or operation.failure.reason in ("PROCESS_ENDED", "SHIM_DISCONNECTED"), f"how it ended: {operation.failure}")
    harness.wait_for("nothing of it is left", lambda: not node.scratch_entries())


def refusals(p, client, node, app):
    python_package.fails(p.FailedPrecondition, "NOT_PAUSED", lambda: client.prefetch(app.pid), pid=app.pid)
    node.expect(STATE, "prefetch", app.pid)
    python_package.fails(p.NotFound, "NO_PROCESS", lambda: client.prefetch(p.Selector(job="nobody")))
    harness.equal(client.prefetch(p.Selector(job="nobody"), allow_empty=True), [], "nobody is selected")
    python_package.fails(p.InvalidArgument, "BAD_SELECTOR", lambda: client.prefetch(p.Selector()))
    client.pause(app.pid, policy="host")
    harness.equal(client.prefetch(app.pid)[0].already, True, "what is in host memory has nothing to come")
    client.resume(app.pid)
    app.step()


def run(node):
    parkade = python_package.load()
    node.start_daemon()
    app = node.stepper("--buffers", BUFFERS, "--bytes", f"{EACH}M")
    app.step()
    with parkade.Client(str(node.runtime)) as client:
        refusals(parkade, client, node, app)
        whole(parkade, client, node, app)
        bounded(parkade, client, node, app)
        changed(parkade, client, node, app)
        interrupted(parkade, client, node, app)
        killed(parkade, client, node, app)


harness.scenario(run)
