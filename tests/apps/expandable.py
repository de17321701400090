"""A program that makes and maps its GPU memory itself, as PyTorch's expandable segments do: it reserves addresses
once, and maps handles of 2 and 20 MiB into them as it grows. Told what to do by lines of input, each is answered
by one line; the first wrong byte ends it.

  grow N       N more pages, mapped first and allowed all at once: "pages COUNT BYTES"
  shrink N     N pages at random are given back:                   "pages COUNT BYTES"
  step N       N random turns: grow, shrink, map a page once more, read-only too, take it out of its place for a
               while, write it anew. Then every byte of every page, at each of its places: "step COUNT BYTES"
  check        the bytes alone:                                    "right COUNT BYTES"
  ask          what the driver says of every place:                "said HASH"
  export       a descriptor of one page, made and closed:          "exported BYTES"
  fork         a child that tries to give all back and ends:       "forked CODES", what the driver said to it
  clear        everything is given back:                           "cleared"
"""

import ctypes
import hashlib
import os
import random
import sys

from cuda_driver import check, load, retain, serve

MIB = 1 << 20
SIZES = (2 * MIB, 20 * MIB)
MOST_PAGES = {2 * MIB: 24, 20 * MIB: 4}
READ, READ_WRITE = 1, 3
NOT_SUPPORTED = 801  # what a driver may say to memory that its device may only read
# Those that native memory of this kind has, with the bytes that hold the answer.
ATTRIBUTES = {1: 8, 2: 4, 3: 8, 7: 8, 8: 1, 9: 4, 11: 8, 12: 8, 13: 1, 14: 8, 16: 4, 18: 8, 19: 8, 20: 8}


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", Location),
        ("win32", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8),
    ]


DEVICE = Location(1, 0)
FULL = Access(DEVICE, READ_WRITE)


class Page:
    """One handle. `handle` is None once the program has released it, which it may do early."""

    def __init__(self, handle, size):
        self.handle, self.size = handle, size
        self.places = {}  # address: may write
        self.content = b""


class Program:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.cuda = load()
        retain(self.cuda, 0)
        self.pages, self.parked = [], []
        self.free = {}  # size: addresses where nothing is mapped
        for size in SIZES:
            base, room = ctypes.c_uint64(), 3 * MOST_PAGES[size] * size
            self.call("cuMemAddressReserve", ctypes.byref(base), ctypes.c_size_t(room), ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
            self.free[size] = [base.value + at for at in range(0, room, size)]

    def call(self, name, *arguments):
        check(getattr(self.cuda, name)(*arguments), name)

    # Pages and places.

    def map(self, page):
        # Not always at the front: segments have holes.
        free = self.free[page.size]
        at = free.pop(self.random.randrange(min(len(free), 4)))
        self.call("cuMemMap", ctypes.c_uint64(at), ctypes.c_size_t(page.size), ctypes.c_size_t(0), ctypes.c_uint64(page.handle), ctypes.c_uint64(0))
        page.places[at] = False
        return at

    def allow(self, page, at, flags=READ_WRITE):
        access = Access(DEVICE, flags)
        code = self.cuda.cuMemSetAccess(ctypes.c_uint64(at), ctypes.c_size_t(page.size), ctypes.byref(access), ctypes.c_size_t(1))
        if code == NOT_SUPPORTED and flags == READ:
            self.allow(page, at)
            return
        check(code, "cuMemSetAccess")
        page.places[at] = flags == READ_WRITE

    def unmap(self, page, at):
        self.call("cuMemUnmap", ctypes.c_uint64(at), ctypes.c_size_t(page.size))
        del page.places[at]
        self.free[page.size].append(at)
        self.free[page.size].sort()

    def release(self, page):
        self.call("cuMemRelease", ctypes.c_uint64(page.handle))
        page.handle = None

    def fill(self, page):
        """Each MiB differs from all others."""
        part = self.random.randbytes(4088)
        page.content = b"".join((at.to_bytes(8, "little") + part) * 256 for at in range(page.size // MIB))
        at = self.random.choice([place for place, writes in page.places.items() if writes])
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(at), page.content, ctypes.c_size_t(page.size))

    def make(self):
        kinds = [size for size in SIZES if sum(p.size == size for p in self.pages + self.parked) < MOST_PAGES[size]]
        if not kinds:
            return
        size, handle = self.random.choice(kinds), ctypes.c_uint64()
        properties = Properties(type=1, handle_types=1, location=DEVICE)
        self.call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties), ctypes.c_uint64(0))
        page = Page(handle.value, size)
        self.map(page)
        self.pages.append(page)

    def drop(self, page):
        """In either order, as programs do."""
        self.pages.remove(page)
        if page.handle is not None and self.random.random() < 0.5:
            self.release(page)
        for at in list(page.places):
            self.unmap(page, at)
        if page.handle is not None:
            self.release(page)

    def again(self, page):
        """Another place for a page, through a handle asked for when its own has been released."""
        if len(page.places) == 2:
            return
        if page.handle is None:
            handle = ctypes.c_uint64()
            self.call("cuMemRetainAllocationHandle", ctypes.byref(handle), ctypes.c_void_p(next(iter(page.places))))
            page.handle = handle.value
        at = self.map(page)
        if kind := self.random.randrange(3):
            self.allow(page, at, READ if kind == 1 else READ_WRITE)
        else:
            self.unmap(page, at)

    def park(self, page):
        """Its handle alone keeps its bytes."""
        if page.handle is not None:
            for at in list(page.places):
                self.unmap(page, at)
            self.pages.remove(page)
            self.parked.append(page)

    def unpark(self):
        if self.parked:
            page = self.parked.pop(self.random.randrange(len(self.parked)))
            self.allow(page, self.map(page))
            self.pages.append(page)

    def turn(self):
        kind = self.random.randrange(9)
        if kind < 2 or not self.pages:
            self.grow("1")
            return
        page = self.random.choice(self.pages)
        if kind == 2:
            self.drop(page)
        elif kind == 3 and page.handle is not None:
            self.release(page)
        elif kind == 4:
            self.again(page)
        elif kind == 5:
            self.park(page)
        elif kind == 6:
            self.unpark()
        elif any(page.places.values()):
            self.fill(page)

    def verify(self):
        for page in self.pages:
            found = ctypes.create_string_buffer(page.size)
            for at in page.places:
                self.call("cuMemcpyDtoH_v2", found, ctypes.c_uint64(at), ctypes.c_size_t(page.size))
                if found.raw[: page.size] != page.content:
                    sys.exit(f"wrong bytes at 0x{at:x}, in {page.size} bytes mapped {len(page.places)} times")

    # What the lines say.

    def size(self):
        pages = self.pages + self.parked
        return f"{len(pages)} {sum(page.size for page in pages)}"

    def grow(self, count):
        before = len(self.pages)
        for _ in range(int(count)):
            self.make()
        # A segment that has grown by several handles without a hole gets its access by one call.
        new = {next(iter(page.places)): page for page in self.pages[before:]}
        for at in sorted(new):
            if (page := new.get(at)) is None or page.places[at]:
                continue
            end, run = at + page.size, [at]
            while end in new and new[end].size == page.size:
                run.append(end)
                end += page.size
            self.call("cuMemSetAccess", ctypes.c_uint64(at), ctypes.c_size_t(end - at), ctypes.byref(FULL), ctypes.c_size_t(1))
            for place in run:
                new[place].places[place] = True
        for page in self.pages[before:]:
            self.fill(page)
        return f"pages {self.size()}"

    def shrink(self, count):
        for _ in range(min(int(count), len(self.pages))):
            self.drop(self.random.choice(self.pages))
        return f"pages {self.size()}"

    def step(self, count):
        for _ in range(int(count)):
            self.turn()
        self.verify()
        return f"step {self.size()}"

    def check(self):
        self.verify()
        return f"right {self.size()}"

    def ask(self):
        said = hashlib.sha256()

        def note(*values):
            said.update(repr(values).encode())

        for page in sorted(self.pages, key=lambda page: min(page.places)):
            for at in sorted(page.places):
                inside = at + self.random.randrange(page.size)
                for attribute, width in ATTRIBUTES.items():
                    value = ctypes.create_string_buffer(8)
                    code = self.cuda.cuPointerGetAttribute(value, ctypes.c_int(attribute), ctypes.c_uint64(inside))
                    answer = int.from_bytes(value.raw[:width], "little")
                    note(at, attribute, code, answer - inside if attribute == 3 else answer)
                base, size, flags, handle = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_ulonglong(), ctypes.c_uint64()
                note(self.cuda.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(inside)), base.value, size.value)
                note(self.cuda.cuMemGetAccess(ctypes.byref(flags), ctypes.byref(DEVICE), ctypes.c_uint64(at)), flags.value)
                self.call("cuMemRetainAllocationHandle", ctypes.byref(handle), ctypes.c_void_p(inside))
                properties = Properties()
                note(self.cuda.cuMemGetAllocationPropertiesFromHandle(ctypes.byref(properties), handle), handle.value, bytes(properties))
                self.call("cuMemRelease", handle)
        return f"said {said.hexdigest()}"

    def export(self):
        page, descriptor = next(page for page in self.pages if page.handle is not None), ctypes.c_int(-1)
        self.call("cuMemExportToShareableHandle", ctypes.byref(descriptor), ctypes.c_uint64(page.handle), ctypes.c_int(1), ctypes.c_uint64(0))
        os.close(descriptor.value)
        return f"exported {page.size}"

    def fork(self):
        child = os.fork()
        if child == 0:
            codes = {self.cuda.cuMemUnmap(ctypes.c_uint64(at), ctypes.c_size_t(p.size)) for p in self.pages for at in p.places}
            codes |= {self.cuda.cuMemRelease(ctypes.c_uint64(p.handle)) for p in self.pages if p.handle is not None}
            os._exit(codes.pop() if len(codes) == 1 else 255)
        return f"forked {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}"

    def clear(self):
        for page in self.parked:
            self.release(page)
        self.parked.clear()
        self.shrink(len(self.pages))
        return "cleared"


serve(Program(int(sys.argv[1])))
