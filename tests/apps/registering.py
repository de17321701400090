"""A program that registers its GPU memory with a network card and with NCCL, or with what stands in for them
(registering/registering_like.c), told what to do by lines of input; each is answered by one line.

  verbs I       ibv_reg_mr of buffer I:              "registered I"
  end I         ibv_dereg_mr of it:                  "ended I"
  nccl I        ncclCommRegister of buffer I:        "registered I"
  destroy       the communicator:                    "destroyed"
  check         every byte of every buffer:          "right BYTES"

Arguments: the library, and how many MiB each buffer has."""

import ctypes
import sys

from cuda_driver import allocate, check, load, retain, serve

MIB = 1 << 20
PATTERN = 0x5EED0000


class Program:
    def __init__(self, library, *mib):
        self.cuda = load()
        retain(self.cuda, 0)
        self.library = ctypes.CDLL(library)
        for name in ("ibv_reg_mr", "registering_like_comm"):
            getattr(self.library, name).restype = ctypes.c_void_p
        self.buffers, self.regions = [], {}
        for i, size in enumerate(mib):
            count = int(size) * MIB // 4
            at = allocate(self.cuda, 4 * count)
            check(self.cuda.cuMemsetD32_v2(at, ctypes.c_uint(PATTERN + i), ctypes.c_size_t(count)), "cuMemsetD32")
            self.buffers.append((at, count))
        check(self.cuda.cuCtxSynchronize(), "cuCtxSynchronize")
        self.communicator = ctypes.c_void_p(self.library.registering_like_comm())

    def buffer(self, i):
        at, count = self.buffers[int(i)]
        return ctypes.c_void_p(at.value), ctypes.c_size_t(4 * count)

    def verbs(self, i):
        region = self.library.ibv_reg_mr(None, *self.buffer(i), 0)
        if not region:
            sys.exit("ibv_reg_mr failed")
        self.regions[i] = ctypes.c_void_p(region)
        return f"registered {i}"

    def end(self, i):
        check(self.library.ibv_dereg_mr(self.regions.pop(i)), "ibv_dereg_mr")
        return f"ended {i}"

    def nccl(self, i):
        handle = ctypes.c_void_p()
        code = self.library.ncclCommRegister(self.communicator, *self.buffer(i), ctypes.byref(handle))
        check(code, "ncclCommRegister")
        return f"registered {i}"

    def destroy(self):
        check(self.library.ncclCommDestroy(self.communicator), "ncclCommDestroy")
        return "destroyed"

    def check(self):
        total = 0
        for i, (at, count) in enumerate(self.buffers):
            host = (ctypes.c_uint32 * count)()
            check(self.cuda.cuMemcpyDtoH_v2(host, at, ctypes.c_size_t(4 * count)), "cuMemcpyDtoH")
            if bytes(host) != (PATTERN + i).to_bytes(4, "little") * count:
                sys.exit(f"wrong bytes in buffer {i}")
            total += 4 * count
        return f"right {total}"


serve(Program(*sys.argv[1:]))
