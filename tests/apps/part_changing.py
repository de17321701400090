"""A program with bytes that no pattern describes, of which it changes as many as it is told to by lines of input;
each is answered by one line.

  fill COUNT BYTES      COUNT allocations, multiples of 2 MiB:            "filled"
  change PERCENT        a word in so many of the blocks of 2 MiB, spread: "changed COUNT"
  zero COUNT            fills the first COUNT allocations with zeroes:    "zeroed"
  verify                every byte is what it has to be:                  "right", or "wrong ADDRESS"
"""

import ctypes
import os

from cuda_driver import allocate, check, load, retain, serve

BLOCK = 2 << 20
PART = 64 << 20


class Program:
    def __init__(self):
        self.cuda = load()
        retain(self.cuda, 0)
        self.buffers = []
        self.noise = os.urandom(PART)
        self.words = {}  # what was changed: address to word
        self.zeroed = 0
        self.changes = 0

    def parts(self):
        """Address and length of each part, and whether it is zero by now."""
        for number, (address, size) in enumerate(self.buffers):
            for at in range(0, size, PART):
                yield address + at, min(PART, size - at), number < self.zeroed

    def write(self, address, data):
        check(self.cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(address), data, ctypes.c_size_t(len(data))), "cuMemcpyHtoD")

    def fill(self, count, size):
        size = int(size)
        self.buffers += [(allocate(self.cuda, size).value, size) for _ in range(int(count))]
        for address, length, _ in self.parts():
            self.write(address, self.noise[:length])
        return "filled"

    def change(self, percent):
        self.changes += 1
        blocks = [address + at for address, length, zero in self.parts() if not zero for at in range(0, length, BLOCK)]
        step = 100 / float(percent)
        chosen = {blocks[int(i * step)] for i in range(int(len(blocks) / step))}
        for block in chosen:
            address = block + self.changes * 8 % BLOCK
            self.words[address] = os.urandom(8)
            self.write(address, self.words[address])
        return f"changed {len(chosen)}"

    def zero(self, count):
        self.zeroed = int(count)
        for address, size in self.buffers[:self.zeroed]:
            check(self.cuda.cuMemsetD8_v2(ctypes.c_uint64(address), ctypes.c_ubyte(0), ctypes.c_size_t(size)), "cuMemsetD8")
        return "zeroed"

    def verify(self):
        found, zeroes = bytearray(PART), bytes(PART)
        into = (ctypes.c_char * PART).from_buffer(found)
        changed = sorted(self.words)
        for address, length, zero in self.parts():
            check(self.cuda.cuMemcpyDtoH_v2(into, ctypes.c_uint64(address), ctypes.c_size_t(length)), "cuMemcpyDtoH")
            wanted = zeroes
            if not zero:
                wanted = bytearray(self.noise)
                for at in changed:
                    if address <= at < address + length:
                        wanted[at - address:at - address + 8] = self.words[at]
            if memoryview(found)[:length] != memoryview(wanted)[:length]:
                return f"wrong {address:#x}"
        return "right"


serve(Program())
