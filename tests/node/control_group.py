"""What a program's control group has free bounds its backups in host memory, for all programs of the group
together; page cache that can be dropped is no memory in use. Nobody is killed for want of it."""

import contextlib
import os
import pathlib
import secrets

import harness

MIB = 1 << 20
LIMIT = 256 * MIB
RESOURCES = 5


def controllers():
    """Where memory control groups can be made: the folder, the limit's file, what makes it ready."""
    v1 = pathlib.Path("/sys/fs/cgroup/memory")
    if (v1 / "memory.limit_in_bytes").exists():
        return v1, "memory.limit_in_bytes"
    v2 = pathlib.Path("/sys/fs/cgroup")
    if (v2 / "cgroup.controllers").exists() and "memory" in (v2 / "cgroup.subtree_control").read_text().split():
        return v2, "memory.max"
    raise harness.Skip("no memory control groups here")


@contextlib.contextmanager
def control_group():
    root, limit = controllers()
    group = root / f"parkade-test-{secrets.token_hex(4)}"
    try:
        group.mkdir()
        (group / limit).write_text(str(LIMIT))
    except OSError as error:
        raise harness.Skip(f"no control group can be made: {error}") from None
    try:
        yield group
    finally:
        harness.wait_for("the group is empty", lambda: not (group / "cgroup.procs").read_text().split())
        group.rmdir()


def fill_page_cache(group, path, size):
    """A child in the group writes a file: its pages are the group's."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(OSError):
            (group / "cgroup.procs").write_text("0")
            with open(path, "wb") as file:
                for _ in range(size // MIB):
                    file.write(bytes(MIB))
                os.fsync(file.fileno())
            code = 0
        os._exit(code)
    harness.equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "exit code of the child that fills the cache")


def move(app, group):
    (group / "cgroup.procs").write_text(str(app.pid))


def resume(node, group, *apps):
    """Outside of the group: the simulated GPU's memory is host memory, and whoever takes it is charged for it."""
    for app in apps:
        move(app, group.parent)
    node.expect(0, "resume", *(app.pid for app in apps), "--release-host")
    for app in apps:
        app.step()
        move(app, group)


def run(node):
    if os.getuid() != 0:
        raise harness.Skip("control groups need root")
    node.start_daemon()
    with control_group() as group:
        try:
            within(node, group)
        finally:
            for app in node.apps:
                app.kill()


def within(node, group):
    fill_page_cache(group, node.root / "cached", 192 * MIB)
    apps = [node.stepper("--buffers", 1, "--bytes", "100M") for _ in range(3)]
    for app in apps:
        app.step()
        move(app, group)
    # 64 MiB would be free if the cache were in use, 100 are asked for.
    node.expect(0, "pause", apps[0].pid, "--policy", "host")
    resume(node, group, apps[0])

    # Each one fits, and two together; three do not.
    node.expect(0, "pause", *(app.pid for app in apps[:2]), "--policy", "host")
    resume(node, group, *apps[:2])
    pids = [app.pid for app in apps]
    done = node.expect(RESOURCES, "pause", *pids, "--policy", "host")
    for word in ("HOST_MEMORY", group.name, "MiB"):
        harness.holds(word in done.err, f"the error must say {word}: {done.err.strip()}")
    harness.equal([node.state(pid) for pid in pids], ["running"] * 3, "states after the refusal")
    for policy in ("auto", "disk"):
        node.expect(0, "pause", *pids, "--policy", policy)
        backups = [node.process(pid) for pid in pids]
        held = sum(b["host_backup_bytes"] for b in backups)
        harness.holds(held <= LIMIT and (held > 0) == (policy == "auto"), f"{held} bytes of backups in a group of {LIMIT}")
        harness.holds(sum(b["disk_backup_bytes"] for b in backups) >= 300 * MIB - held, "the rest is on disk")
        resume(node, group, *apps)
    for app in apps:
        app.finish()


harness.scenario(run)
