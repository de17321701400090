"""A program that makes and frees very many allocations, told what to do by lines of input; each is answered by one
line. It reaches the driver by ctypes.

  small COUNT BYTES     COUNT allocations, kept until `free`:    "used BYTES" of GPU memory, by the driver's word
  mixed COUNT SEED      COUNT allocations of 1 byte to 48 MiB, at most 64 of them at a time, freed in any order:
                        "mixed"
  free                  frees what `small` has made:             "freed"
  try BYTES             one allocation:                          "ok", or "error CODE"; BYTES may end in T
  drop                  frees it:                                "dropped"
  create BYTES          a physical handle, by cuMemCreate:       "ok", or "error CODE"
  release               that handle:                             "released"
  census                "census FREE DESCRIPTORS MAPPINGS", FREE being the driver's free bytes
"""

import ctypes
import os
import pathlib
import random

from cuda_driver import allocate, check, load, retain, serve

# Around the borders of the size classes, and inside them.
SIZES = (1, 512, 4096, 65_537, 1 << 20, (1 << 20) + 1, 2 << 20, 20 << 20, 32 << 20, (32 << 20) + 1, 48 << 20)
WEIGHTS = (20, 20, 40, 20, 10, 10, 10, 4, 2, 1, 1)
AT_ONCE = 64


class Program:
    def __init__(self):
        self.cuda = load()
        retain(self.cuda, 0)
        self.kept, self.tried, self.handle = [], None, ctypes.c_uint64()

    def driver_free(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        check(self.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), "cuMemGetInfo")
        return free.value

    def give_back(self, address):
        check(self.cuda.cuMemFree_v2(address), "cuMemFree")

    def small(self, count, size):
        before = self.driver_free()
        self.kept += [allocate(self.cuda, int(size)) for _ in range(int(count))]
        return f"used {before - self.driver_free()}"

    def free(self):
        while self.kept:
            self.give_back(self.kept.pop())
        return "freed"

    def mixed(self, count, seed):
        choose, live = random.Random(int(seed)), []
        for size in choose.choices(SIZES, WEIGHTS, k=int(count)):
            live.append(allocate(self.cuda, size))
            if len(live) > choose.randrange(AT_ONCE):
                self.give_back(live.pop(choose.randrange(len(live))))
        for address in live:
            self.give_back(address)
        return "mixed"

    def try_one(self, size):
        address, size = ctypes.c_uint64(), int(size.rstrip("T")) << (40 if size.endswith("T") else 0)
        code = self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
        if code:
            return f"error {code}"
        self.tried = address
        return "ok"

    def drop(self):
        self.give_back(self.tried)
        return "dropped"

    def create(self, size):
        # type, handle types, location; then a pointer and flags.
        properties = (ctypes.c_int * 8)(1, 0, 1, 0)
        code = self.cuda.cuMemCreate(ctypes.byref(self.handle), ctypes.c_size_t(int(size)), properties, ctypes.c_uint64(0))
        return f"error {code}" if code else "ok"

    def release(self):
        check(self.cuda.cuMemRelease(self.handle), "cuMemRelease")
        return "released"

    def census(self):
        with open("/proc/self/maps", encoding="ascii") as maps:
            mappings = len(maps.readlines())
        descriptors = len(os.listdir(pathlib.Path("/proc/self/fd")))
        return f"census {self.driver_free()} {descriptors} {mappings}"


setattr(Program, "try", Program.try_one)  # a word of the language
serve(Program())
