"""Pauses and resumes are operations: found by id and by request, followed, cancelled, and known to the next daemon."""

import threading
import time

import harness
import python_package

STUCK_MS = 2500
STATE, NOT_FOUND = 4, 3


def cancelled(parkade, operation):
    harness.equal(operation.state, parkade.OperationState.FAILED, "state of the cancelled operation")
    failure = parkade.errors.of(operation.failure)
    harness.equal((type(failure), failure.reason), (parkade.Cancelled, "CANCELLED"), "how it failed")
    harness.equal(failure.details["operation"], operation.id, "the operation that its failure names")


def moving_pause(parkade, client, node, app):
    """Cancelled while bytes move: what is out comes back."""
    node.faults(f"cuMemcpyDtoHAsync 2 wait {STUCK_MS}ms pid={app.pid}")
    seen = []
    watch = client.watch(app.pid, operations=True)
    watcher = threading.Thread(target=lambda: seen.extend(e.operation for e in watch if e.operation), daemon=True)
    watcher.start()
    id = python_package.begin(client, lambda: client.pause(app.pid, request_id="moving"))
    harness.wait_for("it moves bytes", lambda: node.state(app.pid) == "evicting")
    found = client.get_operation(id)
    harness.equal((found.request_id, found.pids, found.kind), ("moving", (app.pid,), parkade.OperationKind.PAUSE), "what is found by id")
    harness.equal(client.get_operation(request_id="moving").id, id, "what is found by request")
    harness.equal([o.id for o in client.list_operations()], [id], "what runs")
    harness.equal(client.wait_operation(id, timeout=0.3).state, parkade.OperationState.RUNNING, "a wait that is over before it")
    progress = harness.wait_for("it has moved bytes", lambda: client.get_operation(id).progress)
    harness.holds(progress.total_bytes >= app.bytes and progress.done_bytes < progress.total_bytes, f"progress: {progress}")

    cancelled(parkade, client.cancel_operation(id))
    node.faults()
    python_package.fails(parkade.Cancelled, "CANCELLED", lambda: client.pause(app.pid, request_id="moving"))
    harness.equal(node.state(app.pid), "running", "state after it")
    app.step()
    harness.wait_for("the watch tells of its end", lambda: any(o.failure for o in seen))
    watch.close()
    watcher.join()
    harness.equal({o.id for o in seen}, {id}, "operations that the watch told of")
    harness.holds(any(o.progress and o.progress.total_bytes for o in seen), "the watch tells of its progress")
    harness.equal(len([o for o in seen if o.failure]), 1, "times that it tells of its end")


def draining_pause(parkade, client, node, app):
    """Cancelled while it waits for the GPU's work: nothing has changed."""
    app.say("spin 4000")
    app.until("spinning")
    id = python_package.begin(client, lambda: client.pause(app.pid))
    harness.wait_for("it drains", lambda: node.state(app.pid) == "preparing")
    begin = time.monotonic()
    cancelled(parkade, client.cancel_operation(id))
    harness.holds(time.monotonic() - begin < 3.0, "a pause that drains is undone before the work is done")
    harness.equal(node.state(app.pid), "running", "state after it")
    app.step()


def waiting_resume(parkade, client, node, app):
    """Cancelled while it waits for room: stays paused, with its backup."""
    client.pause(app.pid)
    taker = node.stepper("--buffers", 1, "--bytes", "700M", park=False)
    id = python_package.begin(client, lambda: client.resume(app.pid, wait_timeout=60, request_id="waits"))
    done = node.expect(0, "cancel", "--request-id", "waits")
    harness.holds(id in done.out and "CANCELLED" in done.out, f"what cancel prints: {done.out}")
    harness.equal(node.state(app.pid), "paused", "state of who waited")
    taker.step()
    taker.finish()
    (back,) = client.resume(app.pid, wait_timeout=60)
    harness.holds(not back.already, "the next resume")
    app.step()


def after_the_end(parkade, client, node, app):
    client.pause(app.pid, request_id="done")
    client.resume(app.pid)
    operation = client.cancel_operation(request_id="done")
    harness.equal((operation.state, operation.results[0].pid), (parkade.OperationState.DONE, app.pid), "what was over is left alone")
    node.expect(STATE, "cancel", operation.id)
    node.expect(NOT_FOUND, "cancel", "nothing-1")
    python_package.fails(parkade.NotFound, "NO_OPERATION", lambda: client.wait_operation("nothing-1"), operation="nothing-1")
    python_package.fails(parkade.NotFound, "NO_OPERATION", lambda: client.get_operation(request_id="nothing"), request_id="nothing")
    ended = node.json("ops", "--ended")["operations"]
    harness.holds(operation.id in [o["id"] for o in ended], "the ended are listed")
    harness.equal(node.json("ops")["operations"], [], "what runs")
    return operation


def restart(parkade, client, node, app, before):
    """The next daemon knows what was answered, and what was in the middle."""
    node.faults(f"cuMemcpyDtoHAsync 2 wait 2500ms pid={app.pid}")
    id = python_package.begin(client, lambda: client.pause(app.pid, request_id="cut"))
    harness.wait_for("it moves bytes", lambda: node.state(app.pid) == "evicting")
    node.kill_daemon()
    node.faults()
    node.start_daemon()
    python_package.reaches(client)
    harness.equal(client.get_operation(before.id), before, "an operation of the daemon before")
    harness.equal(client.pause(app.pid, request_id="done"), list(before.results), "its answer to the same request")
    cut = client.wait_operation(id)
    harness.equal((cut.request_id, cut.pids), ("cut", (app.pid,)), "the one that was interrupted")
    harness.equal(parkade.errors.of(cut.failure).reason, "INTERRUPTED", "how it ended")
    harness.wait_for("it is undone", lambda: node.state(app.pid) == "running")
    app.step()
    (again,) = client.pause(app.pid, request_id="cut")
    harness.holds(not again.already, "asked for again it is carried out")
    client.resume(app.pid)
    app.step()


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("faults come from the simulated driver")
    parkade = python_package.load()
    node.env["PARKADE_ELISION"] = "off"  # every byte is to move, also one that has not changed
    node.start_daemon()
    app = node.verifier("--buffers", 3, "--bytes", 150_000_000)
    app.step()
    with parkade.Client(str(node.runtime)) as client:
        moving_pause(parkade, client, node, app)
        draining_pause(parkade, client, node, app)
        waiting_resume(parkade, client, node, app)
        before = after_the_end(parkade, client, node, app)
        restart(parkade, client, node, app, before)
    app.finish()


harness.scenario(run, gpu_bytes="1G")
