"""The sides of the colocated example in small, `turning.py actor`, `critic`, `rollout` or `guest`: they answer the same requests,
share their weights by CUDA IPC and say when a byte is wrong, but learn nothing. By ctypes, so that they run on the simulated GPU."""

import ctypes
import json
import sys

import parkade
from cuda_driver import allocate, check, load, retain

WEIGHTS = 33 << 20  # more than shares its memory with others


class Side:
    """Buffers by name, each full of a number of four bytes that counts up from what it was filled with."""

    def __init__(self):
        self.cuda, self.made = load(), {}

    def call(self, name, *arguments):
        check(getattr(self.cuda, name)(*arguments), name)

    def make(self, name, size, tag):
        with parkade.tag(tag):
            self.made[name] = allocate(self.cuda, size), size

    def content(self, name, number):
        row = (ctypes.c_uint32 * 4096)(*range(number, number + 4096))
        return (bytes(row) * (self.made[name][1] // len(bytes(row)) + 1))[: self.made[name][1]]

    def fill(self, name, number):
        address, size = self.made[name]
        self.call("cuMemcpyHtoD_v2", address, self.content(name, number), ctypes.c_size_t(size))

    def verify(self, name, number):
        address, size = self.made[name]
        found = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", found, address, ctypes.c_size_t(size))
        if found.raw != self.content(name, number):
            sys.exit(f"{name} is not what it was filled with, {number}")

    def end(self):
        return {"bytes": sum(size for _, size in self.made.values()), "state": "none"}


class Actor(Side):
    def build(self, bytes):
        retain(self.cuda, 0)
        self.version = 0
        self.make("moments", bytes, "optimizer")
        self.fill("moments", 0)
        self.make("transfer", WEIGHTS, "transfer")
        return self.publish()

    def train(self, tokens, versions, values=None):
        if tokens != versions or versions != [[self.version, self.version]] or values not in (None, [self.version]):
            sys.exit(f"samples of {versions} and values {values} for version {self.version}")
        self.verify("moments", self.version)
        self.version += 1
        self.fill("moments", self.version)
        return {"reward": self.version, "loss": float(self.version).hex(), **self.publish()}

    def publish(self):
        self.fill("transfer", self.version + 1000)
        handle = (ctypes.c_ubyte * 64)()
        self.call("cuIpcGetMemHandle", handle, self.made["transfer"][0])
        return {"weights": [self.version, bytes(handle).hex()], "bytes": WEIGHTS}


class Critic(Side):
    def build(self, bytes):
        retain(self.cuda, 0)
        self.version = 0
        self.make("moments", bytes, "optimizer")
        self.fill("moments", 0)
        return {}

    def judge(self, tokens):
        if tokens != [[self.version, self.version]]:
            sys.exit(f"samples of {tokens} for version {self.version}")
        self.verify("moments", self.version)
        self.version += 1
        self.fill("moments", self.version)
        return {"values": [self.version - 1], "loss": float(self.version).hex()}


class Guest(Side):
    def build(self, bytes):
        retain(self.cuda, 0)
        self.make("numbers", bytes, "default")
        self.fill("numbers", 5)
        return {}

    def work(self):
        self.verify("numbers", 5)
        return {}


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Rollout(Side):
    def build(self, bytes, batch):
        retain(self.cuda, 0)
        self.make("weights", WEIGHTS, "weights")
        self.make("frozen", max(1 << 20, bytes // 3), "weights")
        self.make("cache", max(1 << 20, bytes // 3 * 2 - WEIGHTS), "kv_cache")
        self.fill("frozen", 7)
        return {}

    def generate(self):
        self.verify("frozen", 7)
        self.verify("weights", self.version + 1000)
        self.fill("cache", self.version)
        self.verify("cache", self.version)
        return {"tokens": [[self.version, self.version]], "versions": [[self.version, self.version]]}

    def update(self, weights):
        self.version, words = weights
        shared = ctypes.c_uint64()
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(shared), Handle.from_buffer_copy(bytes.fromhex(words)), ctypes.c_uint(1))
        self.call("cuMemcpyDtoD_v2", self.made["weights"][0], shared, ctypes.c_size_t(WEIGHTS))
        self.call("cuCtxSynchronize")
        self.call("cuIpcCloseMemHandle", shared)
        return {}


side = {"actor": Actor, "critic": Critic, "rollout": Rollout, "guest": Guest}[sys.argv[1]]()
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps(getattr(side, request["do"])(**request["with"])), flush=True)
