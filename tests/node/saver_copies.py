"""Backups of a program's own pauses lie in host memory in one piece, which the program reads while it is paused, and after a
resume where it retains them; what it does not retain is given back."""

import harness
from saver_program import MIB, Saver, with_and_without_daemon

SIZE, ODD = 150 * MIB, 40 * MIB + 4097
SLACK = 16 * MIB + harness.DRIVER_OWN_BYTES  # what a program has more or less for other reasons


def program(node):
    saver = Saver(node)
    saver.region("weights", host=True)
    for backend, name, size in (("pinned", "model", SIZE), ("mmap", "mapped", ODD), ("pinned", "empty", ODD)):
        saver.tell(f"set cpu_backup_backend {backend}", backend)
        saver.tell(f"allocate {name} {size}", "allocated")
    saver.tell("update empty zero", "updated")  # nothing is left out of a backup because it is all the same
    saver.region("kv_cache")
    saver.tell(f"allocate cache {ODD}", "allocated")
    return saver


def copies(saver, wanted):
    for name in ("model", "mapped", "empty"):
        saver.tell(f"copy {name}", wanted)


def given_back(node):
    saver = program(node)
    before = saver.private_bytes()
    for _ in range(2):
        copies(saver, "none")
        saver.tell("pause -", 0)
        copies(saver, "right")
        saver.tell(f"copy mapped 4096 {ODD - 4096}", "right")
        saver.tell(f"copy model {SIZE - 1} 1", "right")
        for outside in (f"1 {SIZE}", f"0 {SIZE + 1}", f"{SIZE} 1", f"0 {(1 << 64) - 1}"):
            saver.tell(f"copy model {outside}", "none")
        saver.tell("copy cache", "none")
        saver.tell("resume weights", 0)
        saver.tell("resume -", 0)
        copies(saver, "none")
        saver.right("model", "mapped", "empty")
        kept = saver.private_bytes() - before
        harness.holds(kept <= SLACK, f"{kept} bytes are not given back")
        saver.tell("update model", "updated")
    saver.app.end()


def retained(node):
    saver = program(node)
    saver.tell("set retain_cpu_backup on", "on")
    for _ in range(2):
        saver.tell("pause weights", 0)
        copies(saver, "right")
        saver.tell("resume -", 0)
        copies(saver, "right")
        saver.right("model", "mapped", "empty")
        saver.tell("update model", "updated")
        saver.tell("update empty", "updated")
        # They say what was paused.
        saver.tell("copy model", "wrong")
        saver.tell("copy mapped", "right")
    held = saver.private_bytes()
    # One that is freed takes its backup with it.
    saver.tell("free mapped", "freed")
    saver.tell("set retain_cpu_backup off", "off")
    saver.tell("pause -", 0)
    saver.tell("copy model", "right")
    saver.tell("resume -", 0)
    saver.tell("copy model", "none")
    saver.right("model", "empty")
    released = held - saver.private_bytes()
    harness.holds(released >= SIZE + 2 * ODD - SLACK, f"{released} bytes were given back in the end")
    saver.app.end()


def by_environment(node):
    saver = Saver(node, env={"TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1", "TMS_RETAIN_CPU_BACKUP": "1"})
    saver.tell(f"allocate model {ODD}", "allocated")
    saver.tell("pause default", 0)
    saver.tell("resume default", 0)
    saver.tell("copy model", "right")
    saver.right("model")
    saver.app.end()


harness.scenario(with_and_without_daemon(given_back, retained, by_environment), gpu_bytes="1G")
