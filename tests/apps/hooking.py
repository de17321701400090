"""A program that keeps a cache of GPU memory beside what it needs, gives it back before a pause and takes it again after
the resume, by hooks of the Python package. Told what to do by lines of input; each is answered by one line.

  fail SECONDS TIMES   the next so many calls of the hook take so long, and raise:   "will"
  calls                which hooks have run since the last time:                     "calls [NAME...]"
  remove               both hooks end:                                               "removed"
"""

import time

import parkade
from cuda_driver import allocate, check, load, retain, serve

NEEDED, CACHE = 8 << 20, 64 << 20


class Program:
    def __init__(self):
        self.cuda = load()
        self.context = retain(self.cuda, 0)
        self.needed, self.cache = allocate(self.cuda, NEEDED), allocate(self.cuda, CACHE)
        self.ran, self.failures, self.seconds = [], 0, 0.0
        self.hooks = [
            parkade.before_pause(self.drop, name="drop", timeout=1.0), parkade.after_resume(self.take, name="take")]

    def drop(self):
        self.ran.append("drop")
        if self.failures:
            self.failures -= 1
            time.sleep(self.seconds)
            raise OSError("as it was told")
        check(self.cuda.cuCtxSetCurrent(self.context), "cuCtxSetCurrent")
        if self.cache is not None:
            check(self.cuda.cuMemFree_v2(self.cache), "cuMemFree")
            self.cache = None

    def take(self):
        self.ran.append("take")
        check(self.cuda.cuCtxSetCurrent(self.context), "cuCtxSetCurrent")
        if self.cache is None:
            self.cache = allocate(self.cuda, CACHE)

    def fail(self, seconds, times):
        self.seconds, self.failures = float(seconds), int(times)
        return "will"

    def calls(self):
        ran, self.ran = self.ran, []
        return " ".join(["calls", *ran])

    def remove(self):
        for hook in self.hooks:
            hook.remove()
        return "removed"


serve(Program())
