"""A pause to disk beyond the quota of the program's user is refused before the program is held, though the daemon
that reserves the space is root; within it, it works."""

import ctypes
import os
import struct
import subprocess

import harness

USER = 65534
RESOURCES = 5
Q_SETQUOTA, USRQUOTA = 0x800008, 0


def sh(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise harness.Skip(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout.strip()


def set_quota(device, kib):
    """A hard limit on the user's blocks, as setquota(8) sets it."""
    limits = struct.pack("<QQQQQQQQII", kib, 0, 0, 0, 0, 0, 0, 0, 1, 0)  # struct if_dqblk, QIF_BLIMITS
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.quotactl(ctypes.c_int(Q_SETQUOTA << 8 | USRQUOTA), str(device).encode(), USER, limits):
        raise harness.Skip(f"no quota can be set here: {os.strerror(ctypes.get_errno())}")


def within(node, base):
    device = sh("findmnt", "-n", "-o", "SOURCE", base)
    set_quota(device, 8 << 10)
    node.start_daemon("--scratch-dir", base)
    (node.root / "sim/account").chmod(0o666)  # the simulated GPU is everybody's
    app = node.start("setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", harness.BUILD / "bin/parkade", "run", "--",
                     harness.BUILD / "bin/stepper", "--on-input", "--bytes", "20M", "--buffers", 1, park=False).ready()
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")
    app.step()
    done = node.expect(RESOURCES, "pause", app.pid, "--policy", "disk")
    harness.holds("DISK_QUOTA" in done.err and str(base) in done.err, f"the error: {done.err.strip()}")
    harness.equal(node.state(app.pid), "running", "state after the refusal")
    harness.equal(node.scratch_entries(base), [], "left by the refusal")
    app.step()
    set_quota(device, 64 << 10)
    node.expect(0, "pause", app.pid, "--policy", "disk")
    node.expect(0, "resume", app.pid)
    app.step()
    app.finish()


def run(node):
    if os.getuid() != 0:
        raise harness.Skip("mounting a disk with quotas needs root")
    for folder in (node.root, node.runtime):
        folder.chmod(0o755)
    (node.root / "sim").chmod(0o777)
    image, base = node.root / "quota.img", node.root / "limited"
    with open(image, "wb") as file:
        file.truncate(128 << 20)
    base.mkdir()
    sh("mkfs.ext4", "-q", "-O", "quota", image)
    sh("mount", "-o", "loop,usrquota", image, base)
    try:
        base.chmod(0o1777)
        within(node, base)
    finally:
        node.close()
        subprocess.run(["umount", "--lazy", base], check=True)


harness.scenario(run)
