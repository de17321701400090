"""A program with two GPUs whose calls come from threads with any device current, or none; told what to do by lines of
input, each answered by one line of what the driver said. It reaches the driver by ctypes.

  use DEVICE|none      makes the device's primary context current, or none:      "CODE"
  make DEVICE          a context of the program's own, which becomes current:    "CODE"
  destroy              that context:                                             "CODE"
  reset DEVICE         its primary context, with all memory in it:               "CODE"
  retain DEVICE        that context anew:                                        "retained"
  alloc BYTES          in whatever is current:                                   "CODE", and takes the next index
  device INDEX         whose memory it is, as the driver says:                   "CODE DEVICE"
  set INDEX WORD       every word, from whatever is current:                     "CODE"
  check INDEX WORD     the same way:                                             "CODE right" or "CODE wrong"
  free INDEX           likewise:                                                 "CODE"
  thread WORDS...      the command from a thread of its own, where nothing is current"""

import ctypes
import threading

from cuda_driver import check, load_two, retain, serve

DEVICE_ORDINAL = 9


class Program:
    def __init__(self):
        self.cuda, self.primary = load_two()
        self.own = ctypes.c_void_p()
        self.buffers = []

    def use(self, device):
        context = None if device == "none" else self.primary[int(device)]
        return str(self.cuda.cuCtxSetCurrent(context))

    def make(self, device):
        handle = ctypes.c_int()
        check(self.cuda.cuDeviceGet(ctypes.byref(handle), int(device)), "cuDeviceGet")
        return str(self.cuda.cuCtxCreate_v2(ctypes.byref(self.own), ctypes.c_uint(0), handle))

    def destroy(self):
        return str(self.cuda.cuCtxDestroy_v2(self.own))

    def reset(self, device):
        handle = ctypes.c_int()
        check(self.cuda.cuDeviceGet(ctypes.byref(handle), int(device)), "cuDeviceGet")
        return str(self.cuda.cuDevicePrimaryCtxReset_v2(handle))

    def retain(self, device):
        self.primary[int(device)] = retain(self.cuda, int(device))
        return "retained"

    def alloc(self, size):
        address = ctypes.c_uint64()
        code = self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(size)))
        self.buffers.append((address, int(size)))
        return str(code)

    def device(self, index):
        ordinal = ctypes.c_int(-1)
        code = self.cuda.cuPointerGetAttribute(ctypes.byref(ordinal), DEVICE_ORDINAL, self.buffers[int(index)][0])
        return f"{code} {ordinal.value}"

    def set(self, index, word):
        address, size = self.buffers[int(index)]
        code = self.cuda.cuMemsetD32_v2(address, ctypes.c_uint(int(word)), ctypes.c_size_t(size // 4))
        return str(code or self.cuda.cuCtxSynchronize())

    def check(self, index, word):
        address, size = self.buffers[int(index)]
        found = ctypes.create_string_buffer(size)
        code = self.cuda.cuMemcpyDtoH_v2(found, address, ctypes.c_size_t(size))
        right = found.raw == int(word).to_bytes(4, "little") * (size // 4)
        return f"{code} {'right' if right else 'wrong'}"

    def free(self, index):
        return str(self.cuda.cuMemFree_v2(self.buffers[int(index)][0]))

    def thread(self, verb, *words):
        said = []
        thread = threading.Thread(target=lambda: said.append(getattr(self, verb)(*words)))
        thread.start()
        thread.join()
        return said[0]


serve(Program())
