"""What has not changed since the last pause is neither copied nor written, on the host and on disk; backups are
kept for that after a resume, shown, and given back when another program's pause needs the memory."""

import harness

MIB = 1 << 20
EACH = 40 * MIB


def pause(node, app, *words):
    return node.json("pause", app.pid, *words)["results"][0]


def written(app):
    """What the program has caused to be written to disks, in bytes."""
    with open(f"/proc/{app.pid}/io", encoding="ascii") as f:
        return int(dict(line.split(": ") for line in f.read().splitlines())["write_bytes"])


def unchanged(node, app, policy):
    app.step()
    first = pause(node, app, "--policy", policy)
    harness.equal(first[f"{policy}_bytes"] + first["elided_bytes"], EACH, f"the first pause to {policy}")
    node.expect(0, "resume", app.pid)
    shown = node.process(app.pid)
    harness.equal(shown[f"{policy}_backup_bytes"], 0, "backups of what runs")
    harness.equal(shown[f"{policy}_retained_bytes"], EACH, "backups kept")
    before = written(app)
    again = pause(node, app, "--policy", policy)
    harness.equal((again["host_bytes"], again["disk_bytes"], again["elided_bytes"]), (0, 0, EACH), f"unchanged, to {policy}")
    if policy == "disk":
        harness.equal(written(app) - before, 0, "bytes written to the disk")
    harness.equal(node.process(app.pid)[f"{policy}_retained_bytes"], 0, "kept of what is paused")
    node.expect(0, "resume", app.pid)


def run(node):
    node.start_daemon("--host-budget", "60M")
    app = node.stepper("--buffers", 1, "--bytes", str(EACH))
    for policy in ("host", "disk", "host"):
        unchanged(node, app, policy)
        app.step()  # verifies every byte, then changes it
        whole = pause(node, app, "--policy", policy)
        harness.equal((whole[f"{policy}_bytes"], whole["elided_bytes"]), (EACH, 0), "all has changed")
        node.expect(0, "resume", app.pid)

    harness.equal(pause(node, app, "--policy", "host", "--elision", "bytes")["elided_bytes"], EACH, "compared by bytes")
    node.expect(0, "resume", app.pid)
    harness.equal(pause(node, app, "--policy", "host", "--elision", "off")["host_bytes"], EACH, "without elision")
    node.expect(0, "resume", app.pid)
    harness.equal(node.process(app.pid)["host_retained_bytes"], 0, "kept without elision")

    # A neighbour's pause needs the memory that the first program keeps for its next one.
    pause(node, app, "--policy", "host")
    node.expect(0, "resume", app.pid)
    neighbour = node.stepper("--buffers", 1, "--bytes", str(EACH))
    neighbour.step()
    harness.equal(pause(node, neighbour, "--policy", "host")["host_bytes"], EACH, "the neighbour's pause")
    kept = node.process(app.pid)
    harness.equal((kept["host_retained_bytes"], kept["host_pool_bytes"]), (0, 0), "what the first program keeps")
    # What is paused gives nothing back.
    done = node.expect(5, "pause", app.pid, "--policy", "host")
    harness.holds("HOST_MEMORY" in done.err, f"the error: {done.err.strip()}")
    node.expect(0, "resume", neighbour.pid)
    # Under `auto` too the host comes before the disk.
    harness.equal(pause(node, app, "--policy", "auto")["host_bytes"], EACH, "under auto")
    node.expect(0, "resume", app.pid, "--release-host")
    harness.wait_for("the pool is given back", lambda: node.process(app.pid)["host_pool_bytes"] == 0)
    harness.equal(node.process(app.pid)["host_retained_bytes"], 0, "kept after --release-host")
    for program in (app, neighbour):
        program.step()
        program.finish()


harness.scenario(run)
