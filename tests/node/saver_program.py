"""What the scenarios of torch_memory_saver's functions share: a program that is told to call them."""

import pathlib
import re
import sys

import harness

PROGRAM = harness.TREE / "tests/apps/saving.py"
LIBRARY = harness.BUILD / "lib/libparkade_torch_memory_saver.so"
INVALID_VALUE, OUT_OF_MEMORY, OPERATING_SYSTEM, NOT_SUPPORTED = 1, 2, 304, 801
MIB = 1 << 20
# A drain costs or gives back a little memory of the driver's.
SMALL_PAGES = harness.DRIVER_OWN_BYTES or 64 << 10


class Saver:
    """The program, preloaded with the library under its second name, as `env` and `preload` say otherwise."""

    def __init__(self, node, env=None, preload=LIBRARY):
        self.node = node
        self.app = node.start(sys.executable, PROGRAM, env={"LD_PRELOAD": str(preload), **(env or {})}, park=False)
        self.app.until("ready")
        self.pid = self.app.pid

    def ask(self, line):
        self.app.say(line)
        return self.app.line()

    def tell(self, line, wanted):
        harness.equal(self.ask(line), str(wanted), line)

    def region(self, tag, host=False, disk=False):
        """From now on memory is allocated so."""
        self.tell("set interesting_region on", "on")
        self.tell(f"set current_tag {tag}", tag)
        for name, on in (("cpu", host), ("disk", disk)):
            word = "on" if on else "off"
            self.tell(f"set enable_{name}_backup {word}", word)

    def outside(self):
        self.tell("set interesting_region off", "off")

    def right(self, *names):
        for name in names:
            self.tell(f"check {name}", "right")

    def frees(self, line, size):
        """The line is a success, after which so much more of the GPU's memory is free."""
        before = self.node.gpu_free()
        self.tell(line, 0)
        more = self.node.gpu_free() - before
        harness.holds(abs(more - size) <= SMALL_PAGES, f"{line}: {more} bytes more are free, must be {size}")

    def private_bytes(self):
        """Of host memory; the simulated GPU's is none of it."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) << 10


def with_and_without_daemon(*parts):
    """A scenario's `run`: each part first without a daemon, then with one."""

    def run(node):
        for part in parts:
            part(node)
        node.start_daemon()
        for part in parts:
            part(node)

    return run
