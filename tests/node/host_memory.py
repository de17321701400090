"""A backup in host memory takes as much of it as it has bytes and not more; a resume that is told to gives it
all back, and one that is not keeps it for the next pause."""

import pathlib

import harness

MIB = 1 << 20
SIZE = 225 * MIB  # no power of two, which is what pinned memory is often rounded up to


def private_bytes(pid):
    """What the process holds in memory that is neither a file's nor shared: the simulated GPU's is."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) << 10


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("a card's driver has host memory of its own, which comes and goes")
    node.start_daemon()
    app = node.stepper("--buffers", 1, "--bytes", SIZE)
    app.step()
    start = private_bytes(app.pid)
    for _ in range(3):
        node.expect(0, "pause", app.pid, "--policy", "host")
        held = node.process(app.pid)["host_pool_bytes"]
        taken = private_bytes(app.pid) - start
        harness.holds(SIZE <= held <= 1.02 * SIZE, f"{held} bytes held for a backup of {SIZE}")
        harness.holds(taken <= 1.02 * SIZE + 4 * MIB, f"{taken} bytes more in memory for a backup of {SIZE}")
        node.expect(0, "resume", app.pid)
        harness.equal(node.process(app.pid)["host_pool_bytes"], held, "host memory kept for the next pause")
    node.expect(0, "pause", app.pid, "--policy", "host")
    node.expect(0, "resume", app.pid, "--release-host")
    harness.wait_for("the host memory is given back", lambda: not node.process(app.pid)["host_pool_bytes"])
    left = private_bytes(app.pid)
    harness.holds(left <= 1.05 * start, f"{left} bytes in memory after the release, {start} before the pauses")
    app.step()
    app.finish()


harness.scenario(run)
