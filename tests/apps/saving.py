"""A program that uses its preloaded library as torch_memory_saver's Python side does: by the path in LD_PRELOAD whose name has
torch_memory_saver in it. Told what to do by lines of input; each is answered by one line. It reaches the driver by ctypes.

  set NAME VALUE            calls tms_set_NAME (`margin`: set_memory_margin_bytes), then says tms_get_NAME where there is one:
                            its value, or "set"
  allocate NAME BYTES       fills an allocation:                      "allocated", or the driver's code
  library NAME BYTES PATH   the same by a library in the manner of cuBLAS
  update NAME [zero]        writes other bytes to it, in place:       "updated"
  check NAME                "right" when its bytes are what they were, else "wrong"
  copy NAME [FROM BYTES]    the same of tms_get_cpu_backup_pointer:   "right", "wrong", or "none"
  free NAME                 gives it back:                            "freed"
  pause TAG, resume TAG     "-" for every tag, "" for an empty one:   the code
  early                     what pause and resume of all said before there was a context
  fork, reap                a child that waits, and its end:          its pid, "ended"
  devices TAG               tms_affected_devices:                     the ordinals
  spin NAME MS              a kernel that takes so long, and one that adds to the words of NAME behind it, not waited for: "running"
  thread VERB WORDS...      does it on a thread of its own that has the context
"""

import array
import ctypes
import os
import threading

from adding_kernel import ADD_WORDS
from cuda_driver import check, load, retain, serve

TEXTS = ("current_tag", "cpu_backup_backend", "disk_backup_dir")
DELTA, NON_BLOCKING = 7, 1
# What the simulated GPU has, and on a card this makes: %globaltimer counts nanoseconds.
SPIN_MS = b"""
.version 7.0
.target sm_52
.address_size 64

.visible .entry spin_ms(.param .u32 ms)
{
  .reg .pred %more;
  .reg .b32 %ms;
  .reg .b64 %now, %end;
  ld.param.u32 %ms, [ms];
  mul.wide.u32 %end, %ms, 1000000;
  mov.u64 %now, %globaltimer;
  add.u64 %end, %end, %now;
Next:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %more, %now, %end;
  @%more bra Next;
  ret;
}
"""


def saver_of_preload():
    (path,) = [p for p in os.environ["LD_PRELOAD"].split(":") if "torch_memory_saver" in p]
    saver = ctypes.CDLL(path)
    for name in ("current_tag", "cpu_backup_backend"):
        getattr(saver, f"tms_get_{name}").restype = ctypes.c_char_p
    for name in ("interesting_region", "enable_cpu_backup", "enable_disk_backup", "retain_cpu_backup"):
        getattr(saver, f"tms_set_{name}").argtypes = [ctypes.c_bool]
        getattr(saver, f"tms_get_{name}").restype = ctypes.c_bool
    for name in ("tms_set_current_tag", "tms_set_cpu_backup_backend", "tms_set_disk_backup_dir", "tms_pause", "tms_resume"):
        getattr(saver, name).argtypes = [ctypes.c_char_p]
    saver.tms_affected_devices.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.c_uint32]
    saver.tms_affected_devices.restype = ctypes.c_uint32
    saver.set_memory_margin_bytes.argtypes = [ctypes.c_uint64]
    saver.tms_get_cpu_backup_pointer.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
    saver.tms_get_cpu_backup_pointer.restype = ctypes.c_void_p
    return saver


def tag_of(words):
    return None if words == ("-",) else "".join(words).encode()


class Program:
    def __init__(self):
        self.saver = saver_of_preload()
        # As a framework may, before there is a context.
        self.said_early = self.saver.tms_pause(None), self.saver.tms_resume(None)
        self.cuda = load()
        self.context = retain(self.cuda, 0)
        self.made, self.fills = {}, 0
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), NON_BLOCKING)
        self.add, self.spinning = self.kernel(ADD_WORDS, b"add_words"), self.kernel(SPIN_MS, b"spin_ms")

    def kernel(self, image, name):
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        self.call("cuModuleGetFunction", ctypes.byref(kernel), module, name)
        return kernel

    def call(self, name, *arguments):
        check(getattr(self.cuda, name)(*arguments), name)

    def launch(self, kernel, *parameters):
        pointers = (ctypes.c_void_p * len(parameters))(*(ctypes.addressof(p) for p in parameters))
        self.call("cuLaunchKernel", kernel, 64 if kernel is self.add else 1, 1, 1, 64 if kernel is self.add else 1, 1, 1, 0, self.stream, pointers, None)

    def set(self, name, *words):
        value = " ".join(words)
        if name == "margin":
            self.saver.set_memory_margin_bytes(int(value))
            return "set"
        value = (None if value == "NULL" else value.encode()) if name in TEXTS else value == "on"
        getattr(self.saver, f"tms_set_{name}")(value)
        if name == "disk_backup_dir":
            return "set"
        found = getattr(self.saver, f"tms_get_{name}")()
        return found.decode() if isinstance(found, bytes) else "on" if found else "off"

    def allocate(self, name, size):
        return self.keep(name, int(size), self.cuda.cuMemAlloc_v2)

    def library(self, name, size, path):
        create = ctypes.CDLL(path).cublas_like_create
        return self.keep(name, int(size), lambda *arguments: create(ctypes.c_void_p(self.cuda._handle), *arguments))

    def keep(self, name, size, allocate):
        address = ctypes.c_uint64()
        code = allocate(ctypes.byref(address), ctypes.c_size_t(size))
        if code != 0:
            return code
        self.made[name] = [address, size, None]
        self.update(name)
        return "allocated"

    def update(self, name, zero=""):
        address, size, _ = self.made[name]
        self.fills += 1
        unit = array.array("I", range(self.fills, self.fills + 1021)).tobytes()
        pattern = bytes(size) if zero else (unit * (size // len(unit) + 1))[:size]
        self.call("cuMemcpyHtoD_v2", address, pattern, ctypes.c_size_t(size))
        self.made[name][2] = pattern
        return "updated"

    def check(self, name):
        address, size, pattern = self.made[name]
        found = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", found, address, ctypes.c_size_t(size))
        return "right" if found.raw == pattern else "wrong"

    def copy(self, name, start=0, size=None):
        address, whole, pattern = self.made[name]
        start = int(start)
        size = whole if size is None else int(size)
        copy = self.saver.tms_get_cpu_backup_pointer(address.value + start, size)
        if copy is None:
            return "none"
        return "right" if ctypes.string_at(copy, size) == pattern[start:start + size] else "wrong"

    def free(self, name):
        self.call("cuMemFree_v2", self.made.pop(name)[0])
        return "freed"

    def pause(self, *tag):
        return self.saver.tms_pause(tag_of(tag))

    def resume(self, *tag):
        return self.saver.tms_resume(tag_of(tag))

    def early(self):
        return "{} {}".format(*self.said_early)

    def fork(self):
        ours, self.end = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.close(self.end)
            os.read(ours, 1)
            os._exit(0)
        os.close(ours)
        return self.child

    def reap(self):
        os.close(self.end)
        return "ended" if os.waitpid(self.child, 0)[1] == 0 else "failed"

    def devices(self, *tag):
        found = (ctypes.c_int * 8)()
        count = self.saver.tms_affected_devices(tag_of(tag), found, 8)
        return list(found[:count])

    def spin(self, name, ms):
        address, size, pattern = self.made[name]
        self.launch(self.spinning, ctypes.c_uint32(int(ms)))
        self.launch(self.add, address, ctypes.c_uint64(size // 4), ctypes.c_uint32(DELTA))
        words = array.array("I", pattern[:size // 4 * 4])
        self.made[name][2] = array.array("I", [word + DELTA & 0xFFFFFFFF for word in words]).tobytes() + pattern[size // 4 * 4:]
        return "running"

    def thread(self, verb, *words):
        said = []

        def work():
            self.call("cuCtxSetCurrent", self.context)
            # Each word "and" begins another verb of this thread's.
            for part in " ".join((verb, *words)).split(" and "):
                first, *rest = part.split()
                said.append(str(getattr(self, first)(*rest)))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return " ".join(said)


serve(Program())
