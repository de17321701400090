"""A pause to a scratch directory that cannot hold the bytes is refused, and nothing is left behind."""

import os
import pathlib
import subprocess

import harness

USAGE, NOT_FOUND, RESOURCES = 2, 3, 5


def refused(node, app, base, code, word):
    before = node.gpu_free()
    done = node.expect(code, "pause", app.pid, "--policy", "disk", "--scratch-dir", base)
    harness.holds(word in done.err, f"the error about {base} must say {word!r}: {done.err.strip()}")
    harness.holds(str(base) in done.err, f"the error must name {base}: {done.err.strip()}")
    harness.equal(node.state(app.pid), "running", f"state after the refused {base}")
    harness.holds(node.gpu_free_is(before), "free GPU memory must not change by a refusal")
    if os.path.isdir(base):
        harness.equal(node.scratch_entries(base), [], f"left in {base}")
    app.step()


def mount(source, target, *options):
    target.mkdir()
    done = subprocess.run(["mount", *options, source, target], capture_output=True, text=True, check=False)
    if done.returncode:
        raise harness.Skip(f"mount is not allowed here: {done.stderr.strip()}")
    return target


def run(node):
    if os.getuid() != 0:
        raise harness.Skip("mounting a small disk needs root")
    image = node.root / "disk.img"
    with open(image, "wb") as f:
        f.truncate(24 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    mounted = []
    try:
        mounted.append(full := mount(image, node.root / "full", "-o", "loop"))
        mounted.append(tmpfs := mount("tmpfs", node.root / "tmpfs", "-t", "tmpfs"))
        layers = ",".join(f"{name}={folder(tmpfs / name)}" for name in ("upperdir", "workdir"))
        options = f"lowerdir={folder(node.root / 'lower')},{layers}"
        mounted.append(overlay := mount("overlay", node.root / "overlay", "-t", "overlay", "-o", options))
        readonly = node.root / "readonly"
        mounted.append(mount(node.scratch, readonly, "--bind"))
        subprocess.run(["mount", "-o", "remount,bind,ro", readonly], check=True)
        with_bases(node, full, tmpfs, overlay, readonly)
    finally:
        node.close()
        for target in reversed(mounted):
            subprocess.run(["umount", target], check=True)


def folder(path):
    path.mkdir()
    return path


def with_bases(node, full, tmpfs, overlay, readonly):
    missing = node.root / "missing"
    a_file = node.root / "a-file"
    a_file.touch()
    other = pathlib.Path(node.root / "not-allowed")
    other.mkdir()
    flags = []
    for base in (node.scratch, full, tmpfs, overlay, readonly, missing, a_file):
        flags += ["--scratch-dir", base]
    node.start_daemon(*flags)
    app = node.stepper("--buffers", 2, "--bytes", "40M")
    app.step()

    refused(node, app, tmpfs, USAGE, "tmpfs")
    refused(node, app, overlay, USAGE, "tmpfs")  # what is written to it goes to one
    refused(node, app, missing, NOT_FOUND, "exist")
    refused(node, app, a_file, USAGE, "director")
    refused(node, app, readonly, 4, "read-only")
    refused(node, app, other, USAGE, "allow")
    refused(node, app, full, RESOURCES, "space")

    # The same request to the good base still works.
    node.expect(0, "pause", app.pid, "--policy", "disk")
    node.expect(0, "resume", app.pid)
    app.step()
    app.finish()


harness.scenario(run)
