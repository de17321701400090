"""A program with two GPUs, one of which uses the other's memory; told what to do by lines of input, each
answered by one line. It reaches the driver by ctypes.

  alloc DEVICE BYTES   "allocated INDEX"
  enable USER OWNER    "CODE"
  disable USER OWNER   "CODE"
  access INDEX DEVICE  "none" or "full", as the driver has it: an allocation has none to speak of
  fill INDEX BYTE      "filled", by a copy from the host
  export INDEX         "handle HEX", for another such program
  open DEVICE HEX BYTES  a buffer of another program, in a context of this device: "opened INDEX"
  copy FROM TO         "copied", across devices where they differ
  check INDEX BYTE     "right" or "wrong"
"""

import ctypes

from cuda_driver import allocate, check, load_two, serve, unhooked

FULL = 3  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Program:
    def __init__(self):
        self.cuda, self.contexts = load_two()
        self.buffers = []
        question = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
        self.get_access = question(unhooked(self.cuda, "cuMemGetAccess"))

    def use(self, device):
        check(self.cuda.cuCtxSetCurrent(self.contexts[int(device)]), "cuCtxSetCurrent")

    def alloc(self, device, size):
        self.use(device)
        self.buffers.append((allocate(self.cuda, int(size)), int(size), int(device)))
        return f"allocated {len(self.buffers) - 1}"

    def enable(self, user, owner):
        self.use(user)
        return str(self.cuda.cuCtxEnablePeerAccess(self.contexts[int(owner)], ctypes.c_uint(0)))

    def disable(self, user, owner):
        self.use(user)
        return str(self.cuda.cuCtxDisablePeerAccess(self.contexts[int(owner)]))

    def access(self, index, device):
        flags, location = ctypes.c_ulonglong(), Location(1, int(device))
        address = self.buffers[int(index)][0]
        check(self.get_access(ctypes.byref(flags), ctypes.byref(location), address), "cuMemGetAccess")
        return "full" if flags.value == FULL else "none"

    def fill(self, index, byte):
        address, size, device = self.buffers[int(index)]
        self.use(device)
        check(self.cuda.cuMemcpyHtoD_v2(address, bytes([int(byte)]) * size, ctypes.c_size_t(size)), "cuMemcpyHtoD_v2")
        return "filled"

    def export(self, index):
        handle = Handle()
        check(self.cuda.cuIpcGetMemHandle(ctypes.byref(handle), self.buffers[int(index)][0]), "cuIpcGetMemHandle")
        return f"handle {bytes(handle.bytes).hex()}"

    def open(self, device, text, size):
        self.use(device)
        handle, address = Handle.from_buffer_copy(bytes.fromhex(text)), ctypes.c_uint64()
        check(self.cuda.cuIpcOpenMemHandle_v2(ctypes.byref(address), handle, ctypes.c_uint(1)), "cuIpcOpenMemHandle_v2")
        self.buffers.append((address, int(size), int(device)))
        return f"opened {len(self.buffers) - 1}"

    def copy(self, source, target):
        (source, size, _), (target, _, user) = self.buffers[int(source)], self.buffers[int(target)]
        self.use(user)
        check(self.cuda.cuMemcpyDtoD_v2(target, source, ctypes.c_size_t(size)), "cuMemcpyDtoD_v2")
        check(self.cuda.cuCtxSynchronize(), "cuCtxSynchronize")
        return "copied"

    def check(self, index, byte):
        address, size, device = self.buffers[int(index)]
        found = ctypes.create_string_buffer(size)
        self.use(device)
        check(self.cuda.cuMemcpyDtoH_v2(found, address, ctypes.c_size_t(size)), "cuMemcpyDtoH_v2")
        return "right" if found.raw == bytes([int(byte)]) * size else "wrong"


serve(Program())
