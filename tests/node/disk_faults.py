"""A disk that fails in the middle of a pause, and one that becomes read-only while it holds a backup: a pause that
cannot be is undone, a resume goes through, and no byte is wrong."""

import contextlib
import os
import subprocess

import harness

USER = 65534


def sh(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise harness.Skip(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextlib.contextmanager
def mounted(source, target, *options):
    target.mkdir(exist_ok=True)
    sh("mount", *options, source, target)
    try:
        yield target
    finally:
        subprocess.run(["umount", "--lazy", target], check=True)


def image(path, size, *options):
    with open(path, "wb") as file:
        file.truncate(size)
    sh("mkfs.ext4", "-q", "-E", "lazy_itable_init=0", *options, path)
    return path


def loop_of(mount):
    return sh("findmnt", "-n", "-o", "SOURCE", mount)


def stepper(node, *options):
    """A stepper of a user that is not root."""
    app = node.start("setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", harness.BUILD / "bin/parkade", "run", "--",
                     harness.BUILD / "bin/stepper", "--on-input", *options, park=False).ready()
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")
    app.step()
    return app


def failing(node, base, word, after_a_good_one=None):
    app = stepper(node, "--buffers", 2, "--bytes", "40M")
    if after_a_good_one:
        # The next pause writes the same file again.
        node.expect(0, "pause", app.pid, "--policy", "disk", "--scratch-dir", base)
        node.expect(0, "resume", app.pid)
        after_a_good_one()
    done = node.cli("pause", app.pid, "--policy", "disk", "--scratch-dir", base)
    harness.holds(done.code not in (0, 124), f"a pause to a disk that fails: {done.code} {done.err.strip()}")
    harness.holds(word in done.err and str(base) in done.err, f"the error must say {word!r} and {base}: {done.err.strip()}")
    harness.equal(node.state(app.pid), "running", f"state after {word}")
    app.step()
    node.expect(0, "pause", app.pid, "--policy", "disk")
    node.expect(0, "resume", app.pid)
    app.step()
    app.finish()


def shrink(base):
    """Takes away what is under most of a file system: reads and writes there end with EIO."""
    loop = loop_of(base)
    os.truncate(sh("losetup", "-n", "-O", "BACK-FILE", loop), 16 << 20)
    sh("losetup", "--set-capacity", loop)


def read_only(node, base):
    app = stepper(node, "--buffers", 2, "--bytes", "5M")
    node.expect(0, "pause", app.pid, "--policy", "disk", "--scratch-dir", base)
    # The process has its file open for writing, so a plain remount is refused; the emergency is not.
    device = os.path.basename(loop_of(base))
    trigger = f"/sys/fs/ext4/{device}/trigger_fs_error"
    if not os.path.exists(trigger):
        raise harness.Skip(f"{trigger} is not there to make the file system fail")
    with open(trigger, "w", encoding="ascii") as file:
        file.write("tests/node")
    harness.wait_for("the file system is read-only", lambda: "ro" in sh("findmnt", "-n", "-o", "FS-OPTIONS", base).split(",") or not writable(base))
    node.expect(0, "resume", app.pid)
    app.step()
    done = node.cli("pause", app.pid, "--policy", "disk", "--scratch-dir", base)
    harness.holds(done.code not in (0, 124), f"a pause to a read-only disk: {done.code}")
    harness.equal(node.state(app.pid), "running", "state after the refusal")
    app.step()
    node.expect(0, "pause", app.pid, "--policy", "disk")
    node.expect(0, "resume", app.pid)
    app.step()
    app.finish()


def writable(base):
    try:
        (base / "probe").touch()
    except OSError:
        return False
    return True


def run(node):
    node.env["PARKADE_ELISION"] = "off"  # every byte is to move, also one that has not changed
    if os.getuid() != 0:
        raise harness.Skip("mounting disks needs root")
    for folder in (node.root, node.runtime):
        folder.chmod(0o755)
    (node.root / "sim").chmod(0o777)
    node.scratch.chmod(0o1777)
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        small = enter(mounted("tmpfs", node.root / "memory", "-t", "tmpfs", "-o", "size=40m"))
        thin = enter(mounted(image(small / "thin.img", 256 << 20), node.root / "thin", "-o", "loop"))
        broken = enter(mounted(image(node.root / "broken.img", 256 << 20), node.root / "broken", "-o", "loop"))
        lost = enter(mounted(image(node.root / "lost.img", 64 << 20), node.root / "lost", "-o", "loop,errors=remount-ro"))
        flags = []
        for base in (node.scratch, thin, broken, lost):
            base.chmod(0o1777)
            flags += ["--scratch-dir", base]
        try:
            node.start_daemon(*flags)
            (node.root / "sim/account").chmod(0o666)  # the simulated GPU is everybody's
            # The file system has the room that it promises, what is under it has not.
            failing(node, thin, "DISK_SPACE")
            failing(node, broken, "Input/output error", lambda: shrink(broken))
            read_only(node, lost)
        finally:
            node.close()


harness.scenario(run)
