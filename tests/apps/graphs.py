"""A program that replays one CUDA graph for each line of its input and checks every word that it leaves: a kernel on one
buffer, a copy of that to a second one, and in a child graph a kernel on the second. It reaches the driver by ctypes."""

import array
import ctypes
import sys

from adding_kernel import ADD_WORDS
from cuda_driver import allocate, check, load, retain

COUNT = 3 << 18  # words: 3 MiB, of a slab
LARGE_COUNT = 10 << 20  # 40 MiB, a range of its own; only its front is checked word by word
DELTA, CHILD_DELTA = 7, 1000
NON_BLOCKING, RELAXED = 1, 2


class Program:
    def __init__(self):
        self.cuda = load()
        retain(self.cuda, 0)
        module, self.kernel, self.stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ADD_WORDS)
        self.call("cuModuleGetFunction", ctypes.byref(self.kernel), module, b"add_words")
        self.call("cuStreamCreate", ctypes.byref(self.stream), NON_BLOCKING)
        self.first = allocate(self.cuda, LARGE_COUNT * 4)
        self.second = allocate(self.cuda, COUNT * 4)
        self.wanted = array.array("I", range(COUNT))
        self.call("cuMemsetD32_v2", self.first, ctypes.c_uint(0), ctypes.c_size_t(LARGE_COUNT))
        self.call("cuMemcpyHtoD_v2", self.first, self.wanted.tobytes(), ctypes.c_size_t(COUNT * 4))
        self.exec = self.build()

    def call(self, name, *arguments):
        check(getattr(self.cuda, name)(*arguments), name)

    def add(self, address, count, delta):
        parameters = [address, ctypes.c_uint64(count), ctypes.c_uint32(delta)]
        pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(p) for p in parameters))
        self.call("cuLaunchKernel", self.kernel, 256, 1, 1, 256, 1, 1, 0, self.stream, pointers, None)

    def capture(self, work):
        graph = ctypes.c_void_p()
        self.call("cuStreamBeginCapture_v2", self.stream, RELAXED)
        work()
        self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        return graph

    def build(self):
        def work():
            self.add(self.first, LARGE_COUNT, DELTA)
            self.call("cuMemcpyDtoDAsync_v2", self.second, self.first, ctypes.c_size_t(COUNT * 4), self.stream)

        graph = self.capture(work)
        child = self.capture(lambda: self.add(self.second, COUNT, CHILD_DELTA))
        count, node, made = ctypes.c_size_t(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuGraphGetNodes", graph, None, ctypes.byref(count))
        nodes = (ctypes.c_void_p * count.value)()
        self.call("cuGraphGetNodes", graph, nodes, ctypes.byref(count))
        self.call("cuGraphAddChildGraphNode", ctypes.byref(node), graph, nodes, count, child)
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_ulonglong(0))
        self.call("cuGraphDestroy", graph)
        self.call("cuGraphDestroy", child)
        return made

    def words(self, address):
        found = ctypes.create_string_buffer(COUNT * 4)
        self.call("cuMemcpyDtoH_v2", found, address, ctypes.c_size_t(COUNT * 4))
        return array.array("I", found.raw)

    def replay(self):
        """Whether every word is right after one more replay."""
        self.call("cuGraphLaunch", self.exec, self.stream)
        self.call("cuStreamSynchronize", self.stream)
        self.wanted = array.array("I", [word + DELTA & 0xFFFFFFFF for word in self.wanted])
        beyond = array.array("I", [word + CHILD_DELTA & 0xFFFFFFFF for word in self.wanted])
        return self.words(self.first) == self.wanted and self.words(self.second) == beyond


def main():
    program = Program()
    print("ready", flush=True)
    for step, _ in enumerate(sys.stdin):
        if not program.replay():
            sys.exit(f"replay {step}: words are wrong")
        print(f"replay {step} right", flush=True)


main()
