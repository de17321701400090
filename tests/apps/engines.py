"""A program with what stands in for an inference engine, vLLM's worker or SGLang's memory saver, used through the example
that is written for it. Told what to do by lines of input; each is answered by one line.

  vllm BYTES     a worker of rank 3 with so many bytes of weights and of cache:   "loaded"
  sglang BYTES   the same by SGLang's regions:                                    "loaded"
  check NAME     "right" when the bytes of weights or kv_cache are what they were, else "wrong"
"""

import contextlib
import ctypes
import enum
import sys
import types

from cuda_driver import allocate, check, load, retain, serve


def stand_in(name, **content):
    """A module of that name, and the packages that it is in."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:length]), types.ModuleType(parts[length - 1]))
    vars(sys.modules[name]).update(content)
    return sys.modules[name]


class Memory:
    """The driver, opened late, and what is in the GPU's memory by name."""

    def __init__(self):
        self.made = {}

    def open(self):
        self.cuda = load()
        retain(self.cuda, 0)

    def fill(self, name, size):
        address = allocate(self.cuda, size)
        pattern = name.encode()[:1] * size
        check(self.cuda.cuMemcpyHtoD_v2(address, pattern, ctypes.c_size_t(size)), "cuMemcpyHtoD")
        self.made[name] = address, pattern

    def right(self, name):
        address, pattern = self.made[name]
        found = ctypes.create_string_buffer(len(pattern))
        check(self.cuda.cuMemcpyDtoH_v2(found, address, ctypes.c_size_t(len(pattern))), "cuMemcpyDtoH")
        return found.raw == pattern


def worker_of(memory, size):
    """As vLLM's: device, weights and cache, each in the method that vLLM has for it."""

    class Worker:
        rank = 3

        def init_device(self):
            memory.open()

        def _maybe_get_memory_pool_context(self, tag):
            return contextlib.nullcontext()

        def load_model(self):
            with self._maybe_get_memory_pool_context(tag="weights"):
                memory.fill("weights", size)

        def initialize_from_config(self):
            with self._maybe_get_memory_pool_context(tag="kv_cache"):
                memory.fill("kv_cache", size)

    return Worker


class HookType(enum.Enum):
    REPLACE = "replace"


class HookRegistry:
    @staticmethod
    def register(target, hook, kind):
        module, owner, name = target.rsplit(".", 2)
        assert kind is HookType.REPLACE
        setattr(vars(sys.modules[module])[owner], name, lambda *given, **options: hook(*given, **options))


class _TorchMemorySaverAdapterNoop:
    @contextlib.contextmanager
    def region(self, tag, enable_cpu_backup=False):
        yield


class Program:
    def __init__(self):
        self.memory = Memory()

    def vllm(self, size):
        stand_in("vllm.v1.worker.gpu_worker", Worker=worker_of(self.memory, int(size)))
        import vllm_worker

        worker = vllm_worker.ParkadeWorker()
        worker.init_device()
        worker.load_model()
        worker.initialize_from_config()
        return "loaded"

    def sglang(self, size):
        stand_in("sglang.srt.utils.torch_memory_saver_adapter", _TorchMemorySaverAdapterNoop=_TorchMemorySaverAdapterNoop)
        stand_in("sglang.srt.plugins.hook_registry", HookRegistry=HookRegistry, HookType=HookType)
        import sglang_tags

        sglang_tags.register()
        self.memory.open()
        adapter = _TorchMemorySaverAdapterNoop()
        with adapter.region("weights", enable_cpu_backup=True):
            self.memory.fill("weights", int(size))
        with adapter.region("kv_cache"):
            self.memory.fill("kv_cache", int(size))
        return "loaded"

    def check(self, name):
        return "right" if self.memory.right(name) else "wrong"


serve(Program())
