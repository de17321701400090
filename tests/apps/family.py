"""A program that begets others and ends in many ways, told how by lines of input; each is answered by one line. It
reaches the driver by ctypes.

  context BYTES          a context and BYTES of GPU memory with known bytes:       "context PID"
  check                  looks at them:                                            "right"
  fork                   a child that takes its lines from the same input; the parent waits for its end
  tree DEPTH WIDTH       forks a tree; its leaves end by os._exit, the others by exit:  "tree COUNT FINDINGS"
  spawn METHOD BYTES     by multiprocessing's METHOD a child with a context:       "spawned PID"
  join                   lets that child end:                                      "joined CODE"
  run HOW                /bin/true by posix_spawn, or by vfork and exec:           "ran CODE"
  exec                   becomes a fresh one of itself, whose first line is "ready"
  thread HOW             a thread ends the process: _exit, exit
  orderly                on SIGTERM gives all back to the driver and exits with 7: "orderly"
  give                   gives all back to the driver:                             "gave"
"""

import ctypes
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time

import cuda_driver
from cuda_driver import allocate, check, load, retain

PIECE = 1 << 20


def descriptors():
    """What is open here, without numbers."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}").partition("[")[0])
        except OSError:
            pass  # the listing's own
    return sorted(found)


def memory_kib(field):
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field))


def writable_kib():
    """Addresses that can be written and are nobody else's."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        ranges = [line.split()[0].split("-") for line in maps if line.split()[1] == "rw-p"]
    return sum(int(end, 16) - int(begin, 16) for begin, end in ranges) >> 10


class Holding:
    """GPU memory with known bytes."""

    def __init__(self, size):
        self.cuda = load()
        self.context = retain(self.cuda, 0)
        self.size = size
        self.address = allocate(self.cuda, size)
        self.piece = random.Random(os.getpid()).randbytes(min(PIECE, size))
        for at in range(0, size, PIECE):
            n = min(PIECE, size - at)
            check(self.cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(self.address.value + at), self.piece, ctypes.c_size_t(n)), "cuMemcpyHtoD")
        self.stream = ctypes.c_void_p()
        check(self.cuda.cuStreamCreate(ctypes.byref(self.stream), 1), "cuStreamCreate")

    def check(self):
        found = ctypes.create_string_buffer(len(self.piece))
        for at in range(0, self.size, PIECE):
            n = min(PIECE, self.size - at)
            check(self.cuda.cuMemcpyDtoH_v2(found, ctypes.c_uint64(self.address.value + at), ctypes.c_size_t(n)), "cuMemcpyDtoH")
            if found.raw[:n] != self.piece[:n]:
                sys.exit(f"wrong bytes at {at}")

    def give(self):
        """All that a library's destructors do, in their order."""
        check(self.cuda.cuStreamDestroy_v2(self.stream), "cuStreamDestroy")
        check(self.cuda.cuMemFree_v2(self.address), "cuMemFree")
        check(self.cuda.cuDevicePrimaryCtxRelease_v2(0), "cuDevicePrimaryCtxRelease")


def child_findings(driver):
    """What a forked child has that it must not: empty when all is well."""
    address = ctypes.c_uint64()
    wrong = []
    if len(os.listdir("/proc/self/task")) != 1:
        wrong.append("threads")
    if driver is not None and driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096)) == 0:
        wrong.append("an allocation without a context")
    return wrong


def grow(depth, width, driver, out):
    """Forks `width` children that each grow a tree below them; each writes one line."""
    children = []
    for _ in range(width if depth > 0 else 0):
        begin = time.monotonic()
        child = os.fork()
        if child != 0:
            children.append((child, time.monotonic() - begin))
            continue
        code = 0
        try:
            line = {
                "wrong": child_findings(driver),
                "descriptors": descriptors(),
                "rss_kib": memory_kib("RssAnon:"),
                "writable_kib": writable_kib(),
            }
            below = grow(depth - 1, width, driver, out)
            line["slowest_fork"] = max(below, default=0.0)
            os.write(out, f"{json.dumps(line)}\n".encode())
        except OSError as error:
            os.write(out, f'{json.dumps({"wrong": [repr(error)], "descriptors": [], "rss_kib": 0, "writable_kib": 0, "slowest_fork": 0})}\n'.encode())
            code = 1
        if depth == 1:
            os._exit(code)
        sys.exit(code)
    for child, _ in children:
        _, status = os.waitpid(child, 0)
        if status != 0:
            sys.exit(f"a forked child ended with status {status}")
    return [seconds for _, seconds in children]


def hold_until_told(pipe, size):
    """What multiprocessing's children run."""
    holding = Holding(size)
    pipe.send(os.getpid())
    pipe.recv()
    holding.check()


class Program:
    def __init__(self):
        self.holding = None
        self.child = None
        self.pipe = None

    def context(self, size):
        self.holding = Holding(int(size))
        return f"context {os.getpid()}"

    def check(self):
        self.holding.check()
        return "right"

    def fork(self):
        child = os.fork()
        if child == 0:
            return "forked"
        _, status = os.waitpid(child, 0)
        return f"child ended with {os.waitstatus_to_exitcode(status)}"

    def tree(self, depth, width):
        inlet, outlet = os.pipe()
        driver = self.holding.cuda if self.holding else None
        seconds = grow(int(depth), int(width), driver, outlet)
        os.close(outlet)
        with os.fdopen(inlet) as lines:
            found = [json.loads(line) for line in lines]
        summary = {
            "wrong": sorted({w for f in found for w in f["wrong"]}),
            "descriptors": sorted({d for f in found for d in f["descriptors"]}),
            "rss_kib": max(f["rss_kib"] for f in found),
            "writable_kib": max(f["writable_kib"] for f in found),
            "slowest_fork": max([*seconds, *(f["slowest_fork"] for f in found)]),
        }
        return f"tree {len(found)} {json.dumps(summary)}"

    def spawn(self, method, size):
        context = multiprocessing.get_context(method)
        self.pipe, theirs = context.Pipe()
        self.child = context.Process(target=hold_until_told, args=(theirs, int(size)))
        self.child.start()
        return f"spawned {self.pipe.recv()}"

    def join(self):
        self.pipe.send("end")
        self.child.join()
        return f"joined {self.child.exitcode}"

    def run(self, how):
        if how == "posix_spawn":
            child = os.posix_spawn("/bin/true", ["true"], os.environ)
        else:
            # The C library's own, since Python's os.fork is no vfork.
            libc = ctypes.CDLL(None)
            libc.system.restype = ctypes.c_int
            return f"ran {libc.system(b'/bin/true')}"
        _, status = os.waitpid(child, 0)
        return f"ran {os.waitstatus_to_exitcode(status)}"

    def exec(self):
        os.execv(sys.executable, [sys.executable, __file__])

    def thread(self, how):
        libc = ctypes.CDLL(None)
        end = {"_exit": lambda: os._exit(5), "exit": lambda: libc.exit(6)}[how]
        threading.Thread(target=end).start()
        time.sleep(60)  # the thread ends the process first

    def orderly(self):
        def end(*_):
            self.holding.give()
            sys.exit(7)

        signal.signal(signal.SIGTERM, end)
        return "orderly"

    def give(self):
        self.holding.give()
        return "gave"


if __name__ == "__main__":
    cuda_driver.serve(Program())
