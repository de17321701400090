"""Makes scratch directories as proto/scratch.h lays them out, for scenarios about those that are left."""

import os
import pathlib
import secrets
import struct
import subprocess

# A user of whom nothing runs.
STRANGER = 65534


def boot_id():
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def owner_of(pid, uid=0):
    """The record of a process that lives: what a daemon writes for it."""
    namespace = os.stat(f"/proc/{pid}/ns/pid").st_ino
    return struct.pack("<IIiIQQ40s", 0x574F4B50, 1, pid, uid, start_ticks(pid), namespace, boot_id().encode())


def dead_owner(uid=0):
    """The record of a process that has ended."""
    child = subprocess.Popen(["sleep", "60"])
    record = owner_of(child.pid, uid)
    child.kill()
    child.wait()
    return record


def make(base, owner, uid=0, data=4096):
    """A directory with that owner record, whose lock nobody holds: its path."""
    root = pathlib.Path(base) / "parkade-v1"
    root.mkdir(mode=0o755, exist_ok=True)
    pid = struct.unpack_from("<i", owner, 8)[0]
    path = root / f"p{pid}-{secrets.token_hex(12)}"
    path.mkdir(mode=0o700)
    for name, text in (("owner", owner), ("lock", b""), ("data.0", bytes(data))):
        (path / name).write_bytes(text)
        os.chown(path / name, uid, uid)
    os.chown(path, uid, uid)
    return path


def picture(base):
    """Everything about a tree that a removal, a write or a new file would change."""
    found = []
    for path in sorted(pathlib.Path(base).rglob("*")):
        s = path.lstat()
        found.append((str(path), s.st_ino, s.st_mode, s.st_uid, s.st_size, s.st_mtime_ns, s.st_ctime_ns))
    return found
