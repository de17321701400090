"""A program with two GPUs, one of which uses the other's memory; told what to do by lines of input, each
answered by one line. It reaches the driver by ctypes.

  alloc DEVICE BYTES   "allocated INDEX"
  enable USER OWNER    "CODE"
  disable USER OWNER   "CODE"
  access INDEX DEVICE  "none" or "full"
  fill INDEX BYTE      "filled", by a copy from the host
  copy FROM TO         "copied", across devices where they differ
  check INDEX BYTE     "right" or "wrong"
"""

import ctypes
import sys

FULL = 3  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Program:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.must(self.cuda.cuInit(0))
        count = ctypes.c_int()
        self.must(self.cuda.cuDeviceGetCount(ctypes.byref(count)))
        if count.value < 2:
            print(f"only {count.value} GPUs", flush=True)
            sys.exit(0)
        self.contexts, self.buffers = [], []
        for ordinal in range(2):
            device, context = ctypes.c_int(), ctypes.c_void_p()
            self.must(self.cuda.cuDeviceGet(ctypes.byref(device), ordinal))
            self.must(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
            self.contexts.append(context)

    def must(self, code):
        if code != 0:
            sys.exit(f"CUDA error {code}")

    def use(self, device):
        self.must(self.cuda.cuCtxSetCurrent(self.contexts[int(device)]))

    def alloc(self, device, size):
        address = ctypes.c_uint64()
        self.use(device)
        self.must(self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(size))))
        self.buffers.append((address, int(size), int(device)))
        return f"allocated {len(self.buffers) - 1}"

    def enable(self, user, owner):
        self.use(user)
        return str(self.cuda.cuCtxEnablePeerAccess(self.contexts[int(owner)], ctypes.c_uint(0)))

    def disable(self, user, owner):
        self.use(user)
        return str(self.cuda.cuCtxDisablePeerAccess(self.contexts[int(owner)]))

    def access(self, index, device):
        flags, location = ctypes.c_ulonglong(), Location(1, int(device))
        self.must(self.cuda.cuMemGetAccess(ctypes.byref(flags), ctypes.byref(location), self.buffers[int(index)][0]))
        return "full" if flags.value == FULL else "none"

    def fill(self, index, byte):
        address, size, device = self.buffers[int(index)]
        self.use(device)
        self.must(self.cuda.cuMemcpyHtoD_v2(address, bytes([int(byte)]) * size, ctypes.c_size_t(size)))
        return "filled"

    def copy(self, source, target):
        (source, size, _), (target, _, user) = self.buffers[int(source)], self.buffers[int(target)]
        self.use(user)
        self.must(self.cuda.cuMemcpyDtoD_v2(target, source, ctypes.c_size_t(size)))
        self.must(self.cuda.cuCtxSynchronize())
        return "copied"

    def check(self, index, byte):
        address, size, device = self.buffers[int(index)]
        found = ctypes.create_string_buffer(size)
        self.use(device)
        self.must(self.cuda.cuMemcpyDtoH_v2(found, address, ctypes.c_size_t(size)))
        return "right" if found.raw == bytes([int(byte)]) * size else "wrong"


def main():
    program = Program()
    print("ready", flush=True)
    for line in sys.stdin:
        verb, *words = line.split()
        print(getattr(program, verb)(*words), flush=True)


main()
