"""Backups of a program's own pauses on disk are in files that nothing in the directory shows: two processes share it, somebody
wipes it, one is killed, and no byte is lost and no file is left."""

import pathlib
import shutil

import harness
from saver_program import MIB, OPERATING_SYSTEM, Saver, with_and_without_daemon

SIZE, MORE = 90 * MIB + 5, 33 * MIB


def program(node, folder, **options):
    saver = Saver(node, env={
        "TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "0", "TMS_INIT_ENABLE_DISK_BACKUP": "1",
        "TMS_DISK_BACKUP_DIR": str(folder), "TMS_DISK_BACKUP_CHUNK_MB": "8"}, **options)
    saver.tell(f"allocate states {SIZE}", "allocated")
    saver.tell("set current_tag master", "master")
    saver.tell(f"allocate master {MORE}", "allocated")
    return saver


def fresh(node, name="backups"):
    folder = node.root / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def files_of(pid, folder):
    """Files of the directory, without a name there, that the process has open."""
    links = []
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            links.append(str(entry.readlink()))
        except OSError:
            pass  # closed meanwhile
    return {link for link in links if link.startswith(f"{folder}/") and link.endswith(" (deleted)")}


def is_bare(folder):
    harness.equal(list(folder.iterdir()), [], "what the directory shows")


def two_in_one_directory(node):
    folder = fresh(node)
    actor, critic = program(node, folder), program(node, folder)
    for saver in (actor, critic):
        saver.tell("update states", "updated")
        saver.tell("pause -", 0)
        harness.equal(len(files_of(saver.pid, folder)), 1, "files")
        saver.tell("copy states", "none")
    is_bare(folder)
    # As one of them does at its start.
    shutil.rmtree(folder)
    folder.mkdir()
    for saver in (actor, critic):
        saver.tell("resume -", 0)
        saver.right("states", "master")
        harness.equal(files_of(saver.pid, folder), set(), "files after a resume")
    critic.app.end()
    actor.tell("pause -", 0)
    actor.app.kill()
    is_bare(folder)


def in_steps(node):
    """A second pause finds the first one's bytes in the file, and leaves them there; then another directory."""
    folder, other = fresh(node), fresh(node, "other")
    saver = program(node, folder)
    for first, second in (("default", "master"), ("master", "default")):
        for _ in range(2):
            saver.tell(f"pause {first}", 0)
            saver.tell(f"set disk_backup_dir {other}", "set")
            saver.tell(f"pause {second}", 0)
            harness.equal((len(files_of(saver.pid, folder)), len(files_of(saver.pid, other))), (1, 0), "files")
            saver.tell(f"resume {first}", 0)
            saver.tell(f"set disk_backup_dir {folder}", "set")
            saver.tell(f"pause {first}", 0)
            saver.tell("resume -", 0)
            saver.right("states", "master")
            saver.tell("update states", "updated")
    saver.tell(f"set disk_backup_dir {other}", "set")
    saver.tell("pause -", 0)
    harness.equal((len(files_of(saver.pid, folder)), len(files_of(saver.pid, other))), (0, 1), "files")
    saver.tell("resume -", 0)
    saver.right("states", "master")
    saver.app.end()


def no_directory(node):
    """What does not do is an answer, with everything where it was; one that does comes after it."""
    folder = fresh(node)
    file = folder / "file"
    file.write_text("not a directory")
    saver = program(node, folder)
    for bad in (folder / "none", file, pathlib.Path("/proc")):
        saver.tell(f"set disk_backup_dir {bad}", "set")
        saver.tell("pause -", OPERATING_SYSTEM)
        saver.right("states", "master")
    saver.tell("set disk_backup_dir NULL", "set")  # changes nothing
    saver.tell("pause -", OPERATING_SYSTEM)
    saver.tell(f"set disk_backup_dir {folder}", "set")
    saver.frees("pause -", 126 * MIB)
    saver.tell("resume -", 0)
    saver.right("states", "master")
    harness.equal([entry.name for entry in folder.iterdir()], ["file"], "what the directory shows")
    saver.app.end()


def forked_child(node):
    """A child holds none of the file's space."""
    folder = fresh(node)
    saver = program(node, folder)
    saver.tell("pause -", 0)
    child = int(saver.ask("fork"))
    harness.wait_for("the child lets go of the file", lambda: not files_of(child, folder))
    harness.equal(len(files_of(saver.pid, folder)), 1, "files of the parent")
    saver.tell("reap", "ended")
    saver.tell("resume -", 0)
    saver.right("states", "master")
    saver.app.end()


def beside_its_scratch(node):
    """The daemon's own files are others: what would need both is refused by the one who comes second, and nothing is lost."""
    folder = fresh(node)
    saver = program(node, folder)
    harness.wait_for("it is listed", lambda: node.state(saver.pid) == "running")
    saver.tell("pause default", 0)
    refused = node.cli("pause", saver.pid, "--policy", "disk")
    harness.holds("SCRATCH_IN_USE" in refused.err, f"the refusal: {refused.err}")
    saver.right("master")
    node.expect(0, "pause", saver.pid, "--policy", "host")
    node.expect(0, "resume", saver.pid)
    saver.right("states", "master")
    node.expect(0, "pause", saver.pid, "--policy", "disk", "--tags", "default", "--gate", "open")
    saver.tell("pause master", OPERATING_SYSTEM)
    saver.right("master")
    node.expect(0, "resume", saver.pid)
    saver.right("states", "master")
    saver.app.end()


def run(node):
    with_and_without_daemon(two_in_one_directory, in_steps, no_directory, forked_child)(node)
    beside_its_scratch(node)


harness.scenario(run, gpu_bytes="1G")
