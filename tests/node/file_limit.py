"""A program whose limit on file sizes is below its backup is refused a pause to disk; it is never ended by
SIGXFSZ, whenever the limit comes."""

import resource

import harness

RESOURCES = 5
# Below the backup, and above a buffer: the simulated GPU's memory is files too.
LIMIT = 64 << 20


def limit(app, size):
    resource.prlimit(app.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def run(node):
    node.start_daemon()
    app = node.stepper("--buffers", 4, "--bytes", "40M")
    app.step()
    limit(app, LIMIT)
    done = node.expect(RESOURCES, "pause", app.pid, "--policy", "disk")
    harness.holds("FILE_SIZE_LIMIT" in done.err, f"the error must name the limit: {done.err.strip()}")
    harness.equal(node.state(app.pid), "running", "state after the refusal")
    app.step()

    # Lowered while the bytes are on disk: they are read, which no limit forbids.
    limit(app, resource.RLIM_INFINITY)
    node.expect(0, "pause", app.pid, "--policy", "disk")
    limit(app, LIMIT)
    node.expect(0, "resume", app.pid)
    app.step()

    # Lowered while they are being written: that is undone.
    limit(app, resource.RLIM_INFINITY)
    node.faults(f"cuMemcpyDtoHAsync 2 wait 1000ms pid={app.pid}")
    pause = node.start_cli("pause", app.pid, "--policy", "disk")
    harness.wait_for("bytes move", lambda: node.state(app.pid) == "evicting")
    limit(app, LIMIT)
    harness.equal(pause.wait(harness.PATIENCE), RESOURCES, "exit code of the pause that may not write")
    harness.equal(node.state(app.pid), "running", "state after the undone pause")
    node.faults()
    app.step()
    app.finish()


harness.scenario(run)
