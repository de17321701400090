"""The Python client asks, pauses, resumes, watches, and raises what the daemon refuses by kind."""

import dataclasses

import harness
import python_package

STUCK_MS = 1500


def mirrors(parkade):
    """Each dataclass has the fields of its message, and none is forgotten."""
    from parkade import messages

    for name, kind in vars(parkade.types).items():
        if not dataclasses.is_dataclass(kind):
            continue
        answers = {"Node": "GetNodeResponse", "ProcessDetails": "GetProcessResponse", "FreeMemory": "WaitFreeResponse"}
        message = answers.get(name, name)
        harness.equal(
            sorted(field.name for field in dataclasses.fields(kind)),
            sorted(messages.new(message).DESCRIPTOR.fields_by_name), f"fields of {name}")


def questions(parkade, client, app):
    (process,) = client.list_processes()
    harness.equal((process.pid, process.job, process.rank), (app.pid, "rl", 0), "the process listed")
    harness.equal(process.state, parkade.ProcessState.RUNNING, "its state")
    harness.equal(client.list_processes(parkade.Selector(job="other")), [], "processes of another job")
    details = client.get_process(app.pid)
    harness.equal(sum(a.bytes for a in details.allocations if a.allocation_class == "pausable"), app.bytes, "its bytes")
    node = client.get_node()
    harness.holds(node.gpus and node.gpus[0].total_bytes >= node.gpus[0].free_bytes > 0, f"the node's GPUs: {node}")


def moves(parkade, client, app):
    (out,) = client.pause(app.pid, policy="host", drain_timeout=20, request_id="first")
    harness.equal((out.state, out.already), (parkade.ProcessState.PAUSED, False), "the pause's result")
    harness.holds(out.host_bytes + out.elided_bytes >= app.bytes and out.gpus[0].free_after_bytes > out.gpus[0].free_before_bytes, f"figures: {out}")
    (again,) = client.pause(app.pid, policy=parkade.Policy.HOST, drain_timeout=20, request_id="first")
    harness.equal(again, out, "the answer to the same request")
    (already,) = client.pause(parkade.Selector(job="rl", ranks=[0]))
    harness.holds(already.already, "a second pause must say already")
    python_package.fails(parkade.AlreadyExists, "REQUEST_ID_REUSED", lambda: client.pause(app.pid, request_id="first"), request_id="first")
    (back,) = client.resume(app.pid, release_host=True)
    harness.equal(back.state, parkade.ProcessState.RUNNING, "the resume's result")
    app.step()
    (disk,) = client.pause(app.pid, tag_policies={"default": "disk"}, scratch_base="")
    harness.holds(disk.disk_bytes + disk.elided_bytes >= app.bytes, f"bytes on disk: {disk}")
    client.resume(app.pid)
    app.step()
    (deep,) = client.pause(app.pid, deep=True)
    harness.holds(deep.deep.deep or harness.ON_CARD, f"the deep step: {deep.deep}")
    harness.equal(client.get_process(app.pid).process.deep, deep.deep.deep, "depth of the process")
    (back,) = client.resume(app.pid)
    harness.equal(back.deep is None, not deep.deep.deep, "a resume from there has a step of its own")
    app.step()


def refusals(parkade, client, node, app):
    nobody = 4_000_000
    python_package.fails(parkade.NotFound, "NO_PROCESS", lambda: client.pause(nobody), pid=nobody)
    python_package.fails(parkade.InvalidArgument, "BAD_SELECTOR", lambda: client.pause(parkade.Selector()))
    python_package.fails(parkade.InvalidArgument, "BAD_SIZE", lambda: client.pause(app.pid, drain_timeout=-0.5))
    for wrong, call in (
        (TypeError, lambda: client.pause(app.pid, polcy="disk")),
        (ValueError, lambda: client.pause(app.pid, policy="banana")),
        (TypeError, lambda: client.pause(app.pid, chunk_bytes="256M")),
    ):
        try:
            call()
        except wrong:
            continue
        raise AssertionError(f"must raise {wrong.__name__}")
    with parkade.Client(str(node.root / "nowhere")) as lost:
        error = python_package.fails(parkade.Unavailable, "UNREACHABLE", lost.get_node)
        harness.equal(error.code, "UNAVAILABLE", "code of nobody there")
    harness.equal(node.state(app.pid), "running", "state after the refusals")


def watches(parkade, client, node, app):
    if harness.ON_CARD:
        return
    node.faults(f"cuMemcpyDtoHAsync 2 wait {STUCK_MS}ms pid={app.pid}")
    seen = []
    with client.watch(app.pid, timeout=harness.PATIENCE) as events:
        harness.equal(next(events).kind, parkade.EventKind.PRESENT, "first event")
        python_package.fails(parkade.DeadlineExceeded, "STILL_RUNNING", lambda: client.pause(app.pid, timeout=0.5))
        for event in events:
            seen.append(event)
            if event.process.state is parkade.ProcessState.PAUSED:
                break
    progress = [e.process.progress for e in seen if e.kind is parkade.EventKind.PROGRESS]
    harness.holds(progress and 0 < progress[-1].total_bytes, f"progress: {progress}")
    harness.holds(all(e.process.pid == app.pid for e in seen), "only its events")
    harness.equal(list(client.watch(app.pid, timeout=0.2))[0].kind, parkade.EventKind.PRESENT, "a watch that ends by itself")
    node.faults()
    client.resume(app.pid)
    app.step()


def run(node):
    parkade = python_package.load()
    node.start_daemon()
    app = node.stepper("--buffers", 3, "--bytes", "40M", env={"PARKADE_JOB": "rl", "RANK": "0"})
    app.step()
    mirrors(parkade)
    with parkade.Client(str(node.runtime)) as client:
        questions(parkade, client, app)
        moves(parkade, client, app)
        refusals(parkade, client, node, app)
        watches(parkade, client, node, app)
        harness.equal(client.collect_garbage(dry_run=True)[0].pid, app.pid, "owner of the scratch directory")
    app.finish()


harness.scenario(run)
