"""10,000 allocations of 4 KiB take 64 MiB of the GPU at most; 100,000 allocations of all sizes, freed in any order, leave
no memory, address range, handle or descriptor behind; of empty slabs one stays for each size class.

usage: many_allocations.py [--mixed COUNT]"""

import argparse

import harness

PROGRAM = harness.TREE / "tests/apps/allocating.py"
SMALL_COUNT, SMALL_BYTES, SMALL_LIMIT = 10_000, 4096, 64 << 20
# The largest slab of either size class: see shim/heap/README.md.
EMPTY_SLABS = (2 << 20) + (256 << 20)
WARM = 2_000
# A card's driver maps memory of its own whenever it likes.
DRIVER_OWN_MAPPINGS = 32 if harness.ON_CARD else 0
LONG = 250.0


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed", type=int, default=100_000)
    return parser.parse_args()


def run(node):
    mixed = options().mixed
    node.start_daemon()
    app = node.start("python3", PROGRAM)
    harness.equal(app.line(), "ready", "first line of the program")
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")

    def ask(*words):
        app.say(" ".join(map(str, words)))
        return app.line(LONG).split()

    def resident():
        return node.process(app.pid)["devices"][0]["resident_bytes"]

    def nothing_lives(when):
        """All that was made is free again, and the ledger knows it; what is resident are empty slabs."""
        harness.equal(node.json("show", app.pid)["allocations"], [], f"allocations {when}")
        harness.holds(resident() <= EMPTY_SLABS, f"{resident()} bytes are resident {when}")

    used = int(ask("small", SMALL_COUNT, SMALL_BYTES)[1])
    harness.holds(used <= SMALL_LIMIT, f"{SMALL_COUNT} allocations of {SMALL_BYTES} bytes take {used} bytes")
    harness.equal(len(node.json("show", app.pid)["allocations"]), SMALL_COUNT, "allocations listed")
    ask("free")
    nothing_lives("after the small ones")

    ask("mixed", WARM, 1)
    free, descriptors, mappings = map(int, ask("census")[1:])
    kept = resident()
    ask("mixed", mixed, 2)
    nothing_lives("after the mixed ones")
    later = dict(zip(("free", "descriptors", "mappings"), map(int, ask("census")[1:])))
    # A slab that stays may be larger than the one that stayed before.
    change = free - later["free"] - (resident() - kept)
    harness.holds(change <= harness.DRIVER_OWN_BYTES, f"{change} bytes of the GPU are lost")
    harness.equal(later["descriptors"], descriptors, "descriptors")
    harness.holds(later["mappings"] - mappings <= DRIVER_OWN_MAPPINGS, f"mappings: {mappings}, then {later['mappings']}")
    print(f"{used >> 20} MiB for the small ones; {resident() >> 20} MiB in empty slabs at the end")
    node.expect(0, "pause", app.pid)
    harness.equal(resident(), 0, "resident bytes of a paused program without allocations")
    node.expect(0, "resume", app.pid)
    app.process.stdin.close()
    harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code of the program")


harness.scenario(run)
