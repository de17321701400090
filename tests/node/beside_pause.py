"""Catching a prefetch or a write-behind in the middle, for the scenarios about them."""

import contextlib
import os
import signal

import harness


def tiers(client, app):
    """Bytes of a paused program's backup in host memory and on disk."""
    process = client.get_process(app.pid).process
    return process.host_backup_bytes, process.disk_backup_bytes


@contextlib.contextmanager
def stopped(app):
    """Its shim moves nothing meanwhile."""
    os.kill(app.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(app.pid, signal.SIGCONT)


def moves(client, app):
    """Whether some of its bytes have moved, and some not yet."""
    progress = client.get_process(app.pid).process.progress
    return progress is not None and 0 < progress.done_bytes < progress.total_bytes


def struck(client, node, app, begin, *words):
    """Begins one, and runs `parkade WORDS` (ID stands for it) in its middle: what became of it. The machine may be too fast for
    that, now and then; then all begins anew."""
    def once():
        id = begin()
        harness.wait_for("it moves or has ended", lambda: moves(client, app) or client.get_operation(id).end_time is not None)
        with stopped(app):
            beside = node.start_cli(*(id if word == "ID" else word for word in words))
            harness.wait_for("both are under way, or one has ended", lambda: (
                beside.poll() is not None or len(client.list_operations()) == 2 or client.get_operation(id).cancel_requested))
        harness.equal(beside.wait(harness.PATIENCE), 0, f"exit code of {words}")
        operation = client.wait_operation(id)
        if operation.failure:
            return operation
        client.resume(app.pid)
        app.step()
        return None

    return harness.wait_for("one is caught in the middle", once)
