"""A backup is striped over the directories that the daemon is told to stripe over; the next daemon finds all of it, and it
all goes with its process. The daemon tries each disk and says in its log how it will use it."""

import pathlib
import re

import harness

MIB = 1 << 20
SIZE = 96 * MIB


def data_files(bases):
    return [file for base in bases for file in sorted(pathlib.Path(base).glob("parkade-v1/*/data.0"))]


def written(file):
    """Whether the first MiB of the file holds anything but zeros."""
    with open(file, "rb") as f:
        return any(f.read(MIB))


def round_trip(node, app):
    node.expect(0, "pause", app.pid, "--policy", "disk", "--chunk", "16M")
    node.expect(0, "resume", app.pid)
    app.step()


def run(node):
    bases = [node.root / name for name in ("disk-a", "disk-b")]
    flags = []
    for base in bases:
        base.mkdir()
        flags += ["--scratch-dir", base, "--scratch-stripe", base]
    node.start_daemon(*flags)
    tried = re.compile(r"scratch base \S+: requests of \d+ KiB, \d+ deep.*")
    harness.wait_for("the disk was tried", lambda: tried.search(node.daemon_log.read_text()) or "was not tried" in node.daemon_log.read_text())

    app = node.stepper("--buffers", 2, "--bytes", SIZE // 2)
    app.step()
    round_trip(node, app)
    files = data_files(bases)
    harness.equal(len(files), 2, f"files of the backup: {files}")
    harness.holds(all(written(file) for file in files), "bytes in both")
    sizes = [file.stat().st_size for file in files]
    harness.holds(sum(sizes) >= SIZE and max(sizes) < SIZE, f"shares of {SIZE} bytes: {sizes}")

    node.expect(0, "pause", app.pid, "--policy", "disk")
    node.kill_daemon()
    node.start_daemon(*flags)
    harness.wait_for("the paused program is back", lambda: node.state(app.pid) == "paused")
    node.expect(0, "resume", app.pid)
    app.step()
    round_trip(node, app)
    harness.equal(data_files(bases), files, "the files, which the next daemon has found")
    app.kill()
    harness.wait_for("both directories are gone", lambda: not any(node.scratch_entries(base) for base in bases))


harness.scenario(run)
