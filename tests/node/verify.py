"""Backups of paused programs are read without a resume: whole ones in every tier, changed ones with their address and place, files
that are gone; a resume in the middle wins, and a wish to cancel ends it."""

import contextlib
import os
import signal

import harness
import python_package

STATE, DATA_LOSS = 4, 7


def whole(p, client, node, app):
    """By tier; the process stays as it is."""
    for policy, field in (("host", "host_bytes"), ("disk", "disk_bytes")):
        client.pause(app.pid, policy=policy)
        before = client.get_process(app.pid).process
        (result,) = client.verify(app.pid)
        harness.equal((result.pid, result.state, result.wrong_block_count), (app.pid, p.ProcessState.PAUSED, 0), "what was found")
        harness.equal(getattr(result, field), getattr(before, field.replace("_bytes", "_backup_bytes")), f"{field} that were read")
        harness.equal(result.host_bytes + result.disk_bytes + result.elided_bytes >= app.bytes, True, f"all was read: {result}")
        harness.equal(client.get_process(app.pid).process, before, "the process after it")
        client.resume(app.pid)
        app.step()


def changed(p, client, node, app):
    client.pause(app.pid, policy="disk")
    scratch = client.get_process(app.pid).process.scratch_dir
    with open(f"{scratch}/data.0", "r+b") as file:
        found = file.read()
        place = 150_000_001  # the first buffer is one pattern, which is not stored
        file.seek(place)
        file.write(bytes([found[place] ^ 1]))
        file.flush()
        error = python_package.fails(p.DataLoss, "BACKUP_CORRUPT", lambda: client.verify(app.pid, request_id="changed"), pid=app.pid, path=scratch, wrong_blocks=1)
        harness.equal(error.code, "DATA_LOSS", "its code")
        operation = client.get_operation(error.details["operation"])
        harness.equal((operation.kind, operation.request_id), (p.OperationKind.VERIFY, "changed"), "its operation")
        (block,) = operation.results[0].wrong_blocks
        harness.equal((block.place, block.file, block.missing), ("disk", 0, False), "where it is")
        harness.holds(block.offset <= place < block.offset + block.bytes, f"the place of {block}")
        spans = [(a.address, a.address + a.bytes) for a in client.get_process(app.pid).allocations]
        harness.holds(any(low <= block.address < high for low, high in spans), f"the address of {block}, of {spans}")
        harness.equal(node.state(app.pid), "paused", "state after it")
        done = node.expect(DATA_LOSS, "verify", app.pid)
        harness.holds("data.0 at" in done.out and "changed" in done.out, f"what verify prints: {done.out}")

        file.truncate(0)
        error = python_package.fails(p.DataLoss, "BACKUP_MISSING", lambda: client.verify(app.pid), pid=app.pid, path=scratch)
        result = client.get_operation(error.details["operation"]).results[0]
        harness.equal(str(result.wrong_block_count), error.details["wrong_blocks"], "blocks that are gone")
        harness.holds(result.wrong_block_count > 64 and len(result.wrong_blocks) == 64, f"the first of them are told of: {result.wrong_block_count}")
        harness.holds(all(b.missing for b in result.wrong_blocks), "all of them are missing")
        file.seek(0)
        file.write(found)
    shown = node.json("verify", app.pid)["results"][0]
    harness.equal((shown["pid"], shown["wrong_block_count"], shown["wrong_blocks"]), (app.pid, 0, []), "whole again")
    node.kill_daemon()
    node.start_daemon()
    python_package.reaches(client)
    old = client.get_operation(request_id="changed")
    harness.equal(old.results[0].wrong_blocks, (block,), "what the next daemon knows of it")
    client.resume(app.pid)
    app.step()


@contextlib.contextmanager
def stopped(app):
    os.kill(app.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(app.pid, signal.SIGCONT)


def others_first(p, client, node, app):
    """What comes while a backup is read goes first: its shim has not begun, for it is stopped meanwhile."""
    client.pause(app.pid, policy="disk")
    with stopped(app):
        id = python_package.begin(client, lambda: client.verify(app.pid))
        resume = node.start_cli("resume", app.pid)
        harness.wait_for("both are under way", lambda: len(client.list_operations()) == 2)
    harness.equal(resume.wait(harness.PATIENCE), 0, "exit code of the resume")
    failure = p.errors.of(client.wait_operation(id).failure)
    harness.equal((type(failure), failure.reason), (p.Cancelled, "CANCELLED"), "how the verify ended")
    app.step()

    client.pause(app.pid, policy="disk")
    with stopped(app):
        id = python_package.begin(client, lambda: client.verify(app.pid))
        cancel = node.start_cli("cancel", id)
        harness.wait_for("it is to end", lambda: client.get_operation(id).cancel_requested)
    harness.equal(cancel.wait(harness.PATIENCE), 0, "exit code of the cancel")
    failure = p.errors.of(client.get_operation(id).failure)
    harness.equal((type(failure), failure.details["operation"]), (p.Cancelled, id), "how it ended")
    harness.equal(node.state(app.pid), "paused", "state after it")
    client.verify(app.pid)


def refusals(p, client, node, app):
    python_package.fails(p.FailedPrecondition, "NOT_PAUSED", lambda: client.verify(app.pid), pid=app.pid)
    node.expect(STATE, "verify", app.pid)
    python_package.fails(p.NotFound, "NO_PROCESS", lambda: client.verify(p.Selector(job="nobody")))
    harness.equal(client.verify(p.Selector(job="nobody"), allow_empty=True), [], "nobody is selected")
    python_package.fails(p.InvalidArgument, "BAD_SELECTOR", lambda: client.verify(p.Selector()))


def run(node):
    parkade = python_package.load()
    node.start_daemon()
    app = node.stepper("--buffers", 3, "--bytes", "100M", env={"PARKADE_JOB": "rl"})
    app.step()
    with parkade.Client(str(node.runtime)) as client:
        refusals(parkade, client, node, app)
        whole(parkade, client, node, app)
        changed(parkade, client, node, app)
        others_first(parkade, client, node, app)
        # A second one that runs is passed over.
        beside = node.stepper("--buffers", 1, "--bytes", "10M", env={"PARKADE_JOB": "rl"})
        harness.equal([r.pid for r in client.verify(parkade.Selector(job="rl"))], [app.pid], "whose backups are read")
        beside.finish()
        client.resume(app.pid)
    app.step()
    app.finish()


harness.scenario(run)
