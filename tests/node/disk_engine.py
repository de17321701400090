"""A pause to disk stays within its host memory and out of the page cache, whatever refuses io_uring and O_DIRECT or
only seems to take it: seccomp, FUSE, an overlay, a tmpfs that is allowed by name."""

import contextlib
import os
import pathlib
import subprocess
import sys

import harness

MIB = 1 << 20
SIZE = 160 * MIB
CACHE_LIMIT = 64 * MIB
FUSE_FOLDER = pathlib.Path(__file__).resolve().parents[1] / "apps/fuse_folder.py"

# Runs a command whose calls to io_uring_setup end in EPERM, as in many containers.
NO_IO_URING = """
import ctypes, os, struct, sys
code = b"".join(struct.pack("HBBI", *line) for line in (
    (0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x50000 | 1), (0x06, 0, 0, 0x7fff0000)))
buffer = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program):
    sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[1], sys.argv[1:])
"""


def cached_bytes(path):
    """What of a file is in the page cache."""
    said = subprocess.run(["fincore", "-b", "-n", "-r", "-o", "RES", path], capture_output=True, text=True, check=True)
    return int(said.stdout or 0)


def data_file(base):
    (found,) = pathlib.Path(base).glob("parkade-v1/*/data.0")
    return found


def warnings(node, app):
    return node.json("show", app.pid)["process"].get("warnings", [])


def start(node, *under):
    words = [*under, harness.BUILD / "bin/parkade", "run", "--", harness.BUILD / "bin/stepper", "--on-input", "--buffers", 2, "--bytes", SIZE // 2]
    app = node.start(*words, park=False).ready()
    harness.wait_for("the program is listed as running", lambda: node.state(app.pid) == "running")
    app.step()
    return app


def round_trip(node, app, base, chunk_mib=16, in_memory=False):
    """To disk and back, right, within the stage and out of the page cache."""
    node.expect(0, "pause", app.pid, "--policy", "disk", "--scratch-dir", base, "--chunk", f"{chunk_mib}M")
    held = node.process(app.pid)["host_pool_bytes"]
    harness.holds(held <= (chunk_mib + 32) * MIB, f"{held} bytes of host memory for a stage of {chunk_mib} MiB")
    file = data_file(base)
    paused = cached_bytes(file)
    node.expect(0, "resume", app.pid)
    resumed = cached_bytes(file)
    if not in_memory:
        harness.holds(max(paused, resumed) < CACHE_LIMIT, f"{paused}, then {resumed} bytes of {file} in the page cache")
    app.step()
    return file


def refused_io_uring(node):
    app = start(node, sys.executable, "-c", NO_IO_URING)
    round_trip(node, app, node.scratch)
    said = [w for w in warnings(node, app) if "by threads, io_uring is refused" in w and "errno 1" in w]
    harness.equal(len(said), 1, f"times that is said in {warnings(node, app)}")
    app.finish()


@contextlib.contextmanager
def mounted(target, *command):
    target.mkdir()
    done = subprocess.run([*command, target], capture_output=True, text=True, check=False)
    if done.returncode:
        raise harness.Skip(f"mount is not allowed here: {done.stderr.strip()}")
    try:
        yield target
    finally:
        subprocess.run(["umount", target], check=True)


@contextlib.contextmanager
def fuse(node, target):
    for folder in (target, node.root / "behind-fuse"):
        folder.mkdir()
    if not os.path.exists("/dev/fuse"):
        raise harness.Skip("no /dev/fuse here")
    server = harness.App([sys.executable, FUSE_FOLDER, node.root / "behind-fuse", target], dict(os.environ), node.log("fuse"))
    try:
        server.until("mounted")
        yield target
    finally:
        subprocess.run(["umount", target], check=True)
        server.process.wait(harness.PATIENCE)


def on_file_systems(node, overlay, tmpfs, fuse_base):
    node.start_daemon(*(word for base in (node.scratch, overlay, tmpfs, fuse_base) for word in ("--scratch-dir", base)), "--allow-tmpfs", tmpfs)
    app = start(node)
    inode = round_trip(node, app, node.scratch).stat().st_ino
    harness.equal(round_trip(node, app, node.scratch).stat().st_ino, inode, "the file, which is overwritten in place")
    harness.equal([w for w in warnings(node, app) if "page cache" in w], [], "what is said of a plain disk")
    for base in (overlay, fuse_base):
        round_trip(node, app, base)
    round_trip(node, app, tmpfs, in_memory=True)
    round_trip(node, app, node.scratch, chunk_mib=64)  # last: what a stage has taken stays with the process
    app.finish()
    refused_io_uring(node)


def run(node):
    if os.getuid() != 0:
        raise harness.Skip("mounting needs root")
    layers = {name: node.root / name for name in ("lowerdir", "upperdir", "workdir")}
    for folder in layers.values():
        folder.mkdir()
    options = ",".join(f"{name}={folder}" for name, folder in layers.items())
    with contextlib.ExitStack() as stack:
        overlay = stack.enter_context(mounted(node.root / "overlay", "mount", "-t", "overlay", "-o", options, "overlay"))
        tmpfs = stack.enter_context(mounted(node.root / "tmpfs", "mount", "-t", "tmpfs", "tmpfs"))
        fuse_base = stack.enter_context(fuse(node, node.root / "fuse"))
        try:
            on_file_systems(node, overlay, tmpfs, fuse_base)
        finally:
            node.close()  # before what it uses is unmounted


harness.scenario(run)
