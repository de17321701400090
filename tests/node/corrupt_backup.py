"""A backup file that is changed or cut while its process is paused is refused at the resume, and nothing
else: the process stays paused, its neighbour works, and with the right bytes back it resumes exactly."""

import harness

DATA_LOSS = 7


def refused(node, app, neighbour, reason):
    for _ in range(2):
        done = node.expect(DATA_LOSS, "resume", app.pid)
        harness.holds("the backup of 0x" in done.err, f"the error must name the allocation: {done.err.strip()}")
        harness.holds("file 0" in done.err, f"the error must name the file: {done.err.strip()}")
        harness.holds(reason in done.err, f"the reason must be {reason}: {done.err.strip()}")
        harness.equal(node.state(app.pid), "paused", "state after a refused resume")
        harness.equal(node.process(app.pid)["disk_backup_bytes"], app.backup_bytes, "its backup on disk")
        neighbour.step()
        node.expect(0, "pause", neighbour.pid, "--policy", "host")
        node.expect(0, "resume", neighbour.pid)
        neighbour.step()


def change(data, offset):
    with open(data, "r+b") as f:
        f.seek(offset)
        byte = f.read(1)[0]
        f.seek(offset)
        f.write(bytes([byte ^ 1]))


def run(node):
    node.env["PARKADE_ELISION"] = "off"  # every byte is to move, also one that has not changed
    node.start_daemon()
    app = node.stepper("--buffers", 4, "--bytes", "40M,1,3M,33M")
    neighbour = node.stepper("--buffers", 2, "--bytes", "34M")
    app.step()
    node.expect(0, "pause", app.pid, "--policy", "disk")
    app.backup_bytes = node.process(app.pid)["disk_backup_bytes"]
    (entry,) = node.scratch_entries()
    data = node.scratch / "parkade-v1" / entry / "data.0"
    whole = data.read_bytes()

    for offset in (0, 5 << 20, app.backup_bytes - 1):
        change(data, offset)
        refused(node, app, neighbour, "BACKUP_CORRUPT")
        change(data, offset)
    for kept in (app.backup_bytes - 1, 20 << 20, 0):
        with open(data, "r+b") as f:
            f.truncate(kept)
        refused(node, app, neighbour, "BACKUP_MISSING")
        with open(data, "r+b") as f:
            f.write(whole)

    node.expect(0, "resume", app.pid)
    for program in (app, neighbour):
        program.step()
        program.finish()


harness.scenario(run)
