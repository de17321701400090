"""A program that gives its memory tags, told what to do by lines of input; each is answered by one line. It reaches
the driver by ctypes, and the tags by the Python package.

  allocate NAME BYTES [TAG...]   fills an allocation made under these tags, the last innermost:   "allocated"
  check NAME                     "right" when its bytes are what they were, else "wrong"
  poisoned NAME                  "poisoned" when all its bytes are 0xCB, else "not"
  refused TAG                    what `parkade.tag` says to it: the exception's name, or "taken"
"""

import contextlib
import ctypes

import parkade
from cuda_driver import allocate, check, load, retain, serve


class Program:
    def __init__(self):
        self.cuda = load()
        retain(self.cuda, 0)
        self.made = {}

    def allocate(self, name, size, *tags):
        with contextlib.ExitStack() as stack:
            for tag in tags:
                stack.enter_context(parkade.tag(tag))
            address = allocate(self.cuda, int(size))
        pattern = (bytes(range(len(self.made), 251)) * (int(size) // 100))[:int(size)]
        check(self.cuda.cuMemcpyHtoD_v2(address, pattern, ctypes.c_size_t(len(pattern))), "cuMemcpyHtoD")
        self.made[name] = address, pattern
        return "allocated"

    def read(self, name):
        address, pattern = self.made[name]
        found = ctypes.create_string_buffer(len(pattern))
        check(self.cuda.cuMemcpyDtoH_v2(found, address, ctypes.c_size_t(len(pattern))), "cuMemcpyDtoH")
        return found.raw

    def check(self, name):
        return "right" if self.read(name) == self.made[name][1] else "wrong"

    def poisoned(self, name):
        return "poisoned" if set(self.read(name)) == {0xCB} else "not"

    def refused(self, tag):
        try:
            with parkade.tag(tag):
                return "taken"
        except (ValueError, RuntimeError) as error:
            return type(error).__name__


serve(Program())
