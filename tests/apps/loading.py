"""A program with a CUDA context that loads libraries as lines of its input say, and allocates after each.

  deep PATH     opens it with RTLD_DEEPBIND
  plain PATH    opens it
"""

import ctypes
import os

from cuda_driver import allocate, load, retain, serve

SIZE = 3 << 20


class Program:
    def __init__(self):
        self.cuda = load()
        retain(self.cuda, 0)
        self.loaded = []

    def open(self, path, mode):
        self.loaded.append(ctypes.CDLL(path, mode=mode))
        allocate(self.cuda, SIZE)
        return "loaded"

    def deep(self, path):
        return self.open(path, os.RTLD_NOW | os.RTLD_DEEPBIND)

    def plain(self, path):
        return self.open(path, os.RTLD_NOW)


serve(Program())
