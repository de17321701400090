"""A program that shares GPU memory by CUDA IPC, told what to do by lines of input; each is answered
by one line. It reaches the driver by ctypes, so no runtime stands between.

  make BYTES            a new buffer, full of a pattern:    "made INDEX"
  export INDEX [OFFSET] "handle HEX"
  open HEX              a new buffer:                       "opened INDEX", or "error CODE"
  close INDEX           "closed CODE"
  free INDEX            "freed CODE"
  fill INDEX SEED       "filled"
  check INDEX SEED      "right", or "wrong"
  range INDEX           what cuMemGetAddressRange says:     "range SAME-BASE SIZE"
  address INDEX         "address NUMBER"
  fork SECONDS          "forked PID", a child that lives so long and touches nothing
"""

import ctypes
import os
import time

from cuda_driver import allocate, check, load, retain, serve

STEP = 1 << 20  # a buffer's pattern is one block, repeated


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Program:
    def __init__(self):
        self.cuda = load()
        retain(self.cuda, 0)
        self.buffers = []  # address, bytes

    def block(self, seed):
        page = bytes((seed * 31 + i * 7 + i // 256) % 256 for i in range(4096))
        return page * (STEP // len(page))

    def make(self, size):
        self.buffers.append((allocate(self.cuda, int(size)), int(size)))
        return f"made {len(self.buffers) - 1}"

    def export(self, index, offset="0"):
        handle = Handle()
        address = ctypes.c_uint64(self.buffers[int(index)][0].value + int(offset))
        code = self.cuda.cuIpcGetMemHandle(ctypes.byref(handle), address)
        return f"error {code}" if code else f"handle {bytes(handle.bytes).hex()}"

    def open(self, text):
        handle, address = Handle.from_buffer_copy(bytes.fromhex(text)), ctypes.c_uint64()
        code = self.cuda.cuIpcOpenMemHandle_v2(ctypes.byref(address), handle, ctypes.c_uint(1))
        if code:
            return f"error {code}"
        size = ctypes.c_size_t()
        check(self.cuda.cuMemGetAddressRange_v2(None, ctypes.byref(size), address), "cuMemGetAddressRange_v2")
        self.buffers.append((address, size.value))
        return f"opened {len(self.buffers) - 1}"

    def close(self, index):
        return f"closed {self.cuda.cuIpcCloseMemHandle(self.buffers[int(index)][0])}"

    def free(self, index):
        return f"freed {self.cuda.cuMemFree_v2(self.buffers[int(index)][0])}"

    def parts(self, index):
        """Addresses and sizes of the blocks of a buffer."""
        address, size = self.buffers[int(index)]
        return [(address.value + at, min(STEP, size - at)) for at in range(0, size, STEP)]

    def fill(self, index, seed):
        block = self.block(int(seed))
        for address, size in self.parts(index):
            check(self.cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(address), block, ctypes.c_size_t(size)), "cuMemcpyHtoD_v2")
        return "filled"

    def check(self, index, seed):
        block, found = self.block(int(seed)), ctypes.create_string_buffer(STEP)
        for address, size in self.parts(index):
            check(self.cuda.cuMemcpyDtoH_v2(found, ctypes.c_uint64(address), ctypes.c_size_t(size)), "cuMemcpyDtoH_v2")
            if found.raw[:size] != block[:size]:
                return "wrong"
        return "right"

    def range(self, index):
        address, size, base = self.buffers[int(index)][0], ctypes.c_size_t(), ctypes.c_uint64()
        inside = ctypes.c_uint64(address.value + 100)
        check(self.cuda.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), inside), "cuMemGetAddressRange_v2")
        return f"range {base.value == address.value} {size.value}"

    def address(self, index):
        return f"address {self.buffers[int(index)][0].value}"

    def fork(self, seconds):
        child = os.fork()
        if child == 0:
            time.sleep(float(seconds))
            os._exit(0)
        return f"forked {child}"


serve(Program())
