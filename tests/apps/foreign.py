"""A program with GPU memory of every kind, told what to make by lines of input; each is answered by one line. It begins
with a question that the driver answers with an error, as programs do that look for what a newer driver could have. It
reaches the driver by ctypes.

  plain BYTES      ordinary memory, full of random bytes:                        "made"
  pool BYTES       memory of the device's stream-ordered pool:                   "made"
  unpool           frees it, into a pool that keeps what is freed:               "freed"
  managed BYTES    managed memory, full of random bytes, on the GPU:             "made"
  graph BYTES      a graph with a memory node, which has run once:               "made"
  ungraph          destroys it:                                                  "destroyed"
  pin BYTES        pinned host memory:                                           "made"
  unpin            frees it:                                                     "freed"
  check            all bytes of plain and managed memory:                        "right" or "wrong"
"""

import ctypes
import os
import sys

from cuda_driver import allocate, check, load, retain, serve

UNKNOWN_ATTRIBUTE, INVALID_VALUE = 9999, 1
ATTACH_GLOBAL, RELEASE_THRESHOLD = 1, 4
ON_DEVICE, PINNED, READ_WRITE = 1, 1, 3


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class PoolProperties(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("security", ctypes.c_void_p),
        ("most", ctypes.c_size_t), ("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 54),
    ]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class MemoryNode(ctypes.Structure):
    _fields_ = [
        ("pool", PoolProperties), ("access", ctypes.POINTER(Access)), ("accesses", ctypes.c_size_t),
        ("bytes", ctypes.c_size_t), ("address", ctypes.c_uint64),
    ]


class Program:
    def __init__(self):
        self.cuda = load()
        number = ctypes.c_int()
        if self.cuda.cuDeviceGetAttribute(ctypes.byref(number), UNKNOWN_ATTRIBUTE, 0) != INVALID_VALUE:
            sys.exit("the driver knows an attribute that there is not")
        retain(self.cuda, 0)
        self.filled = []  # address and bytes that must be there
        self.pooled, self.pinned = ctypes.c_uint64(), ctypes.c_void_p()
        self.captured, self.exec, self.from_graph = ctypes.c_void_p(), ctypes.c_void_p(), None

    def call(self, name, *arguments):
        check(getattr(self.cuda, name)(*arguments), name)

    def fill(self, address, size):
        wanted = os.urandom(size)
        self.call("cuMemcpyHtoD_v2", address, wanted, ctypes.c_size_t(size))
        self.filled.append((address, wanted))

    def plain(self, size):
        self.fill(allocate(self.cuda, int(size)), int(size))
        return "made"

    def pool(self, size):
        pool, keep = ctypes.c_void_p(), ctypes.c_uint64(2**64 - 1)
        self.call("cuDeviceGetDefaultMemPool", ctypes.byref(pool), 0)
        self.call("cuMemPoolSetAttribute", pool, RELEASE_THRESHOLD, ctypes.byref(keep))
        self.call("cuMemAllocAsync", ctypes.byref(self.pooled), ctypes.c_size_t(int(size)), None)
        self.call("cuStreamSynchronize", None)
        return "made"

    def unpool(self):
        self.call("cuMemFreeAsync", self.pooled, None)
        self.call("cuStreamSynchronize", None)
        return "freed"

    def managed(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAllocManaged", ctypes.byref(address), ctypes.c_size_t(int(size)), ATTACH_GLOBAL)
        self.fill(address, int(size))
        self.call("cuMemPrefetchAsync_v2", address, ctypes.c_size_t(int(size)), Location(ON_DEVICE, 0), 0, None)
        self.call("cuStreamSynchronize", None)
        return "made"

    def graph(self, size):
        node, added = MemoryNode(), ctypes.c_void_p()
        node.pool.type, node.pool.location = PINNED, Location(ON_DEVICE, 0)
        access = Access(Location(ON_DEVICE, 0), READ_WRITE)
        node.access, node.accesses, node.bytes = ctypes.pointer(access), 1, int(size)
        self.call("cuGraphCreate", ctypes.byref(self.captured), 0)
        self.call("cuGraphAddMemAllocNode", ctypes.byref(added), self.captured, None, ctypes.c_size_t(0), ctypes.byref(node))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(self.exec), self.captured, ctypes.c_ulonglong(0))
        self.call("cuGraphLaunch", self.exec, None)
        self.call("cuStreamSynchronize", None)
        self.from_graph = ctypes.c_uint64(node.address)
        return "made"

    def ungraph(self):
        # Memory that a graph leaves allocated is freed like any other.
        self.cuda.cuMemFree_v2(self.from_graph)
        self.call("cuGraphExecDestroy", self.exec)
        self.call("cuGraphDestroy", self.captured)
        return "destroyed"

    def pin(self, size):
        self.call("cuMemHostAlloc", ctypes.byref(self.pinned), ctypes.c_size_t(int(size)), 0)
        return "made"

    def unpin(self):
        self.call("cuMemFreeHost", self.pinned)
        return "freed"

    def check(self):
        for address, wanted in self.filled:
            found = ctypes.create_string_buffer(len(wanted))
            self.call("cuMemcpyDtoH_v2", found, address, ctypes.c_size_t(len(wanted)))
            if found.raw != wanted:
                return "wrong"
        return "right"


serve(Program())
