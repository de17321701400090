"""What others reach with the same bytes: torch_memory_saver's library, and the driver's own checkpoint call.
Each is a context manager that gives an object with pause() and resume(), which return GB/s."""

import contextlib
import ctypes
import functools
import pathlib
import sys
import time

import harness
from bed import ANSWER_S

TMS_WORKER = pathlib.Path(__file__).with_name("tms_worker.py")


class Tms:
    """A program whose tensors are the library's, kept in pinned memory from the first pause on."""

    name = "torch_memory_saver"

    def __init__(self, app, bytes_):
        self._app, self._bytes = app, bytes_

    def _take(self, word):
        self._app.say(word)
        return self._bytes / float(self._app.until("took", ANSWER_S).split()[1]) / 1e9

    def pause(self):
        return self._take("pause")

    def resume(self):
        return self._take("resume")


@contextlib.contextmanager
def tms(library, node, count, each):
    env = {
        "LD_PRELOAD": str(library), "TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1", "TMS_RETAIN_CPU_BACKUP": "1",
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    }
    app = node.start(sys.executable, TMS_WORKER, count, each, env=env, park=False)
    app.until("ready", ANSWER_S)
    yield Tms(app, count * each)
    app.process.stdin.close()
    harness.equal(app.process.wait(ANSWER_S), 0, f"exit code of the peer: {app.errors()}")


class Checkpoint:
    """A bare program, stopped and copied out by the driver."""

    name = "the driver's checkpoint"

    def __init__(self, pid, bytes_):
        self._pid, self._bytes = pid, bytes_
        self._cuda = ctypes.CDLL("libcuda.so.1" if harness.ON_CARD else f"{harness.SIM_LIBRARIES}/libcuda.so.1")
        if not hasattr(self._cuda, "cuCheckpointProcessLock"):
            raise harness.Skip("this driver has no cuCheckpointProcessLock")
        harness.equal(self._cuda.cuInit(0), 0, "cuInit")

    def _take(self, *calls):
        begin = time.perf_counter()
        for call in calls:
            harness.equal(getattr(self._cuda, call)(self._pid, None), 0, call)
        return self._bytes / (time.perf_counter() - begin) / 1e9

    def pause(self):
        return self._take("cuCheckpointProcessLock", "cuCheckpointProcessCheckpoint")

    def resume(self):
        return self._take("cuCheckpointProcessRestore", "cuCheckpointProcessUnlock")


@contextlib.contextmanager
def checkpoint(node, count, each):
    app = node.verifier("--buffers", count, "--bytes", each, park=False)
    yield Checkpoint(app.pid, count * each)
    app.step(ANSWER_S)  # its bytes are right
    app.process.stdin.close()
    harness.equal(app.process.wait(ANSWER_S), 0, f"exit code of the peer: {app.errors()}")


def peers_of(options):
    """Those that the command line names."""
    named = []
    if options.peer_tms:
        named.append(functools.partial(tms, options.peer_tms))
    if options.peer_checkpoint:
        named.append(checkpoint)
    return named
