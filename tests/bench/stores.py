"""The suite of optimizer stores: whole steps of the built-in Adam, the last byte written, beside what the same bytes take
the disk alone or the link, and a loop that does one thing after the other. Figures in GB/s count what is read and written.

Every round goes through all stores, which stand side by side, the disk's limit between two of an encoding, and the peer behind fp32."""

import harness
from bed import ANSWER_S, GIB, MIB, link

PROGRAM = harness.BUILD / "bin/store_probe"
SMALL = not harness.ON_CARD
ELEMENTS = 1 << 20 if SMALL else 250_000_000
LINK_BYTES = 16 * MIB if SMALL else 2 * GIB
PEER_CHUNK = MIB if SMALL else 256 * MIB
# Encodings of main and of both moments, and bytes of an element.
ENCODINGS = {
    "fp32": ("fp32", "fp32", 12),
    "bf16 moments": ("fp32", "bf16", 8),
    "lo16, bf16 moments": ("lo16", "bf16", 6),
    "lo16, q8 moments": ("lo16", "q8", 4.125),
}
BUCKETS = (32, 64)
SEGMENTS = 3


def fields(line):
    return {name: float(value) for name, value in (word.split("=") for word in line.split() if "=" in word)}


class Program:
    """A store_probe that answers a line with fields."""

    def __init__(self, node, *words, park=False):
        self.app = node.start(PROGRAM, *words, park=park)

    def ask(self, line=""):
        self.app.say(line)
        return self.app.line(ANSWER_S)

    def close(self):
        self.app.process.stdin.close()
        harness.equal(self.app.process.wait(ANSWER_S), 0, f"exit code of {self.app.command}: {self.app.errors()}")


class Store(Program):
    """One store, filled, with one step made."""

    def __init__(self, bench, folder, encoding, buckets, *flags):
        self.main, self.moments, self.each = ENCODINGS[encoding]
        self.bench, self.bytes = bench, int(bench.elements * self.each)
        self.name = f"{encoding}, {buckets} buckets" + "".join(f", {flag}" for flag in flags)
        if folder == "host":
            self.name += " in host memory"
        super().__init__(bench.node, "steps", folder, self.main, self.moments, bench.elements, buckets, *flags, park=True)
        self.ready = fields(self.app.until("ready", ANSWER_S))
        self.in_files = folder != "host"

    def memory(self):
        mark = self.ready["slots"] * self.ready["bucket_elements"] * (self.each + 4 * SEGMENTS) + 64 * MIB
        self.bench.add("stores", f"{self.name}, device memory", unit="MiB", limit=mark / MIB, ours=self.ready["device"] / MIB)

    def step(self):
        """GB/s and seconds of a step; notes how long it has waited for buckets."""
        found = fields(self.ask())
        moved = found["read"], found["written"]
        # Tie maps come on top; a bucket that stays in host memory would be missing.
        harness.holds(not self.in_files or min(moved) >= self.bytes, f"bytes of a step of {self.bytes} of {self.name}: {found}")
        self.bench.add("stores", f"{self.name}, waited for buckets", unit="ms", ours=found["waited"] * 1e3)
        return 2 * self.bytes / found["seconds"] / 1e9, found["seconds"]


class Disk(Program):
    """The disk alone: the better of reads and writes at once and by turns, a 32nd at a time."""

    def gbps(self, bench, bytes_, name):
        mixed = float(self.ask(f"mixed {bytes_}"))
        phased = float(self.ask(f"phased {bytes_} {max(bytes_ // 32, 4 * MIB)}"))
        bench.add("stores", f"disk alone, {name}, at once", limit=mixed)
        bench.add("stores", f"disk alone, {name}, by turns", limit=phased)
        return max(mixed, phased)


class Peer(Program):
    """One thing after the other, over state in fp32."""

    def beside(self, bench, ours):
        """A step of it beside the seconds of ours."""
        found = fields(self.ask())
        bench.add("stores", "step, fp32, beside one thing after the other", unit="s", ours=ours, peer=found["synced"])
        bench.add("stores", "step, fp32, beside that until its last write returns", unit="s", ours=ours, peer=found["seconds"])


def one_round(bench, stores, disk, peer):
    plain = {}  # seconds of fp32, by buckets
    for name, some in stores.items():
        found = [some[0].step()]
        limit = disk.gbps(bench, some[0].bytes, name)
        found += [store.step() for store in some[1:]]
        for store, buckets, (gbps, seconds) in zip(some, (*BUCKETS, None), found):
            bench.add("stores", f"step, {store.name}", limit=limit, ours=gbps)
            bench.add("stores", f"step, {store.name}, seconds", unit="s", ours=seconds)
            if name == "fp32":
                plain[buckets] = seconds
            else:
                by = seconds / plain[buckets]
                bench.add("stores", f"step, {store.name}, time by fp32's", unit="1", limit=store.each / ENCODINGS["fp32"][2], ours=by)
        if name == "fp32":
            peer.beside(bench, plain[BUCKETS[0]])


def on_disk(bench, folder):
    most = int(bench.elements * ENCODINGS["fp32"][2])
    disk = Disk(bench.node, "turns", folder, max(most, 4 * MIB))
    peer = Peer(bench.node, "peer", folder, bench.elements, PEER_CHUNK)
    peer.app.until("ready", ANSWER_S)
    stores = {name: [Store(bench, folder, name, buckets) for buckets in BUCKETS] for name in ENCODINGS}
    stores["fp32"].append(Store(bench, folder, "fp32", BUCKETS[0], "phased"))
    opened = [store for some in stores.values() for store in some]
    for store in opened:
        store.memory()
    for _ in range(bench.rounds):
        one_round(bench, stores, disk, peer)
    for program in (*opened, disk, peer):
        program.close()
    harness.equal(list(folder.iterdir()), [], "files that closed stores have left")


def in_host(bench):
    store = Store(bench, "host", "fp32", BUCKETS[0])
    store.memory()
    with link(bench.node, LINK_BYTES) as limit:
        for _ in range(bench.rounds):
            both = limit("both")
            bench.add("stores", f"step, {store.name}", limit=both, ours=store.step()[0])
    store.close()


def stores(bench):
    bench.elements = bench.options.elements or ELEMENTS
    folder = bench.node.root / "stores"
    folder.mkdir()
    on_disk(bench, folder)
    folder.rmdir()
    in_host(bench)
