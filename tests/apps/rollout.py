"""A rollout engine in small, told what to do by lines of input; each is answered by one line. It reaches the driver by
ctypes, and its tags by the Python package.

  allocate NAME BYTES TAG   fills an allocation made under that tag:                    "allocated"
  update NAME               writes other bytes to it, in place:                         "updated"
  check NAME                "right" when its bytes are what they were, else "wrong"
  free NAME                 gives it back:                                              "freed"
  capture FROM TO           a graph: a kernel changes FROM, a copy takes it to TO:      "captured"
  replay                    replays it:                                                 "right", or "wrong"
"""

import array
import ctypes

import parkade
from adding_kernel import ADD_WORDS
from cuda_driver import allocate, check, load, retain, serve

DELTA = 7
NON_BLOCKING, RELAXED = 1, 2


class Engine:
    def __init__(self):
        self.cuda = load()
        retain(self.cuda, 0)
        self.made, self.fills = {}, 0
        module, self.kernel, self.stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ADD_WORDS)
        self.call("cuModuleGetFunction", ctypes.byref(self.kernel), module, b"add_words")
        self.call("cuStreamCreate", ctypes.byref(self.stream), NON_BLOCKING)

    def call(self, name, *arguments):
        check(getattr(self.cuda, name)(*arguments), name)

    def allocate(self, name, size, tag):
        with parkade.tag(tag):
            self.made[name] = [allocate(self.cuda, int(size)), int(size), None]
        self.update(name)
        return "allocated"

    def update(self, name):
        address, size, _ = self.made[name]
        self.fills += 1
        unit = array.array("I", range(self.fills, self.fills + 1021)).tobytes()
        pattern = (unit * (size // len(unit) + 1))[:size]
        self.call("cuMemcpyHtoD_v2", address, pattern, ctypes.c_size_t(size))
        self.made[name][2] = pattern
        return "updated"

    def found(self, name):
        address, size, _ = self.made[name]
        found = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", found, address, ctypes.c_size_t(size))
        return found.raw

    def check(self, name):
        return "right" if self.found(name) == self.made[name][2] else "wrong"

    def free(self, name):
        self.call("cuMemFree_v2", self.made.pop(name)[0])
        return "freed"

    def capture(self, source, target):
        graph, self.graph = ctypes.c_void_p(), ctypes.c_void_p()
        self.ends = source, target
        address, size, _ = self.made[source]
        parameters = [address, ctypes.c_uint64(size // 4), ctypes.c_uint32(DELTA)]
        pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(p) for p in parameters))
        self.call("cuStreamBeginCapture_v2", self.stream, RELAXED)
        self.call("cuLaunchKernel", self.kernel, 256, 1, 1, 256, 1, 1, 0, self.stream, pointers, None)
        self.call("cuMemcpyDtoDAsync_v2", self.made[target][0], address, ctypes.c_size_t(size), self.stream)
        self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(self.graph), graph, ctypes.c_ulonglong(0))
        self.call("cuGraphDestroy", graph)
        return "captured"

    def replay(self):
        source, target = self.ends
        self.call("cuGraphLaunch", self.graph, self.stream)
        self.call("cuStreamSynchronize", self.stream)
        words = array.array("I", self.made[source][2])
        wanted = array.array("I", [word + DELTA & 0xFFFFFFFF for word in words]).tobytes()
        self.made[source][2] = wanted
        self.made[target][2] = wanted + self.made[target][2][len(wanted):]
        return "right" if self.check(source) == self.check(target) == "right" else "wrong"


serve(Engine())
