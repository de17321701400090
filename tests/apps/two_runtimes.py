"""A program with two libraries that have a CUDA runtime each, told what to do by lines of input.

  begin PATH BYTES    opens the library and has it allocate:    "begun"
  add DELTA           each library adds to its words:           "added"
  read                "read FIRST LAST..." of each library
  end                 each frees:                               "ended"
"""

import ctypes
import os

from cuda_driver import check, serve


class Program:
    def __init__(self):
        self.plugins = []

    def begin(self, path, size):
        plugin = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        check(plugin.plugin_begin(ctypes.c_size_t(int(size))), "plugin_begin")
        self.plugins.append(plugin)
        return "begun"

    def add(self, delta):
        for number, plugin in enumerate(self.plugins, 1):
            check(plugin.plugin_add(int(delta) * number), "plugin_add")
        return "added"

    def read(self):
        words = []
        for plugin in self.plugins:
            first, last = ctypes.c_uint(), ctypes.c_uint()
            check(plugin.plugin_read(ctypes.byref(first), ctypes.byref(last)), "plugin_read")
            words += [str(first.value), str(last.value)]
        return "read " + " ".join(words)

    def end(self):
        for plugin in self.plugins:
            check(plugin.plugin_end(), "plugin_end")
        return "ended"


serve(Program())
