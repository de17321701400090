"""The suites that pause and resume: what is measured, beside which limit, in which order. Each round goes
limit, ours, limit, ours, so that both see the same machine."""

import harness
from bed import GIB, MIB, disk, disk_requests, link, payload, size
from peer_programs import peers_of

SMALL = not harness.ON_CARD

# Allocations of a program: how many, of how many bytes.
HOST = [(1, 16 * MIB), (4, 16 * MIB)] if SMALL else [(1, GIB), (1, 8 * GIB), (64, 512 * MIB)]
SEGMENTS = (
    [(1, 64 * MIB), (32, 2 * MIB)]
    if SMALL
    else [(1, 8 * GIB), (32, 256 * MIB), (64, 128 * MIB), (410, 20 * MIB), (4096, 2 * MIB)]
)
LARGE = [(8, 16 * MIB)] if SMALL else [(64, 512 * MIB), (192, 512 * MIB)]
DISK = [(4, 16 * MIB)] if SMALL else [(32, 512 * MIB)]
LARGE_DISK = [(8, 16 * MIB)] if SMALL else [(64, 512 * MIB)]
CHANGED = (20, 2 * MIB) if SMALL else (64, 512 * MIB)
BESIDE_PEERS = [(4, 16 * MIB)] if SMALL else [(64, 256 * MIB), (410, 20 * MIB)]
BEHIND = (4, 16 * MIB) if SMALL else (32, 512 * MIB)
CHUNKED = (4, 16 * MIB) if SMALL else (8, 512 * MIB)
CHUNKS = [16 * MIB, 64 * MIB] if SMALL else [16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB]
LINK_BYTES = 16 * MIB if SMALL else 4 * GIB
SWEEP_BYTES = 64 * MIB if SMALL else GIB


def what(held):
    return f"{size(held.bytes)} in {held.count}"


def to_host(bench, name, cases, *, cold=True):
    """Cold and warm pauses to host memory, and the resumes."""
    with link(bench.node, LINK_BYTES) as limit:
        for count, each in cases:
            with payload(bench.node, count, each) as held:
                for _ in range(bench.rounds):
                    if cold:
                        bench.add(name, f"pause cold, {what(held)}", limit=limit("out"), ours=held.pause("host"))
                        held.resume()
                    elif held.app.next_step == 0:
                        held.pause("host")
                        held.resume()
                    before = held.core_seconds()
                    bench.add(name, f"pause warm, {what(held)}", limit=limit("out"), ours=held.pause("host"))
                    used = (held.core_seconds() - before) / held.bytes * 100 * GIB
                    bench.add(name, f"pause warm, {what(held)}, processor for 100 GiB", unit="core s", ours=used)
                    options = ["--release-host"] if cold else []
                    bench.add(name, f"resume, {what(held)}", limit=limit("in"), ours=held.resume(*options))
                    if cold:
                        held.forget_pool()
                    held.step()
        for _ in range(bench.rounds):
            bench.add(name, "copies both ways, sum", limit=limit("both"))


def to_disk(bench, name, cases):
    for count, each in cases:
        chunk = bench.chunk
        block, depth = disk_requests(bench.node, chunk)
        requests = f"{size(block)} x {depth}"
        with payload(bench.node, count, each) as held:
            with disk(bench.node, held.bytes, block, depth) as limit:
                for _ in range(bench.rounds):
                    bench.add(name, f"pause, {what(held)}, {requests}", limit=limit("write"), ours=held.pause("disk", "--chunk", chunk))
                    bench.add(name, f"resume, {what(held)}, {requests}", limit=limit("read"), ours=held.resume())
                    held.step()


def chunks(bench, name):
    """The same bytes to disk through stages of different sizes, by turns."""
    count, each = CHUNKED
    with payload(bench.node, count, each) as held:
        for _ in range(bench.rounds):
            for chunk in CHUNKS:
                bench.add(name, f"pause, {what(held)}, --chunk {size(chunk)}", ours=held.pause("disk", "--chunk", chunk))
                bench.add(name, f"resume, {what(held)}, --chunk {size(chunk)}", ours=held.resume())
            held.step()


def auto(bench, name):
    """Policy auto with room for all on the host, beside the copy that is its limit."""
    count, each = HOST[-1]
    with link(bench.node, LINK_BYTES) as limit, payload(bench.node, count, each) as held:
        for _ in range(bench.rounds):
            bench.add(name, f"pause, {what(held)}", limit=limit("out"), ours=held.pause("auto"))
            bench.add(name, f"resume, {what(held)}", limit=limit("in"), ours=held.resume())
            held.step()


def write_behind(bench, name):
    """A pause that answers when its bytes are in host memory, beside the pause to the host that it is to be as fast as
    (ratio at least 1 / 1.05); and what goes on to disk behind it."""
    count, each = BEHIND
    with payload(bench.node, count, each) as held:
        held.pause("host")
        held.resume()
        for _ in range(bench.rounds):
            host = held.pause("host")
            held.resume()
            held.step()
            ours = held.pause("auto", "--write-behind")
            bench.add(name, f"pause, {what(held)}, beside the host's", limit=host, ours=ours)
            bench.add(name, f"on to disk, {what(held)}", ours=held.behind())
            held.resume()
            held.step()


def prefetch(bench, name):
    """A resume after a prefetch, beside the resume from the host that it is to be as fast as (ratio at least 1 / 1.05); and
    the prefetch."""
    count, each = BEHIND
    with payload(bench.node, count, each) as held:
        held.pause("host")
        held.resume()
        for _ in range(bench.rounds):
            held.pause("host")
            host = held.resume()
            held.step()
            held.pause("disk", "--chunk", bench.chunk)
            bench.add(name, f"from disk, {what(held)}", ours=held.prefetch())
            bench.add(name, f"resume, {what(held)}, beside the host's", limit=host, ours=held.resume())
            held.step()


def changed(bench, name):
    """Milliseconds of pauses between which only a part of the allocations got new bytes; the limit is what a
    plain copy of that part would take."""
    count, each = CHANGED
    with link(bench.node, LINK_BYTES) as limit, payload(bench.node, count, each) as held:
        held.pause("host", elision="hash")
        held.resume()
        for _ in range(bench.rounds):
            for percent in (100, 10, 0):
                held.change(percent)
                held.step()
                copied = held.bytes * percent / 100 / limit("out") / 1e6
                took = held.bytes / held.pause("host", elision="hash") / 1e6
                held.resume()
                bench.add(name, f"pause, {what(held)}, {percent} % changed", unit="ms", limit=copied or None, ours=took)


def peer(bench, name):
    """Ours and each peer whose place was given, by turns."""
    for beside in peers_of(bench.options):
        for count, each in BESIDE_PEERS:
            with link(bench.node, LINK_BYTES) as limit, payload(bench.node, count, each) as held:
                with beside(bench.node, count, each) as theirs:
                    label = f"{what(held)}, beside {theirs.name}"
                    for number in range(bench.rounds + 1):
                        measured = [
                            ("pause", {"limit": limit("out"), "ours": held.pause("host"), "peer": theirs.pause()}),
                            ("resume", {"limit": limit("in"), "ours": held.resume(), "peer": theirs.resume()}),
                        ]
                        for way, values in measured:
                            # The first of each pins its memory.
                            bench.add(name, f"{'first ' if number == 0 else ''}{way}, {label}", **values)
                        held.step()


def sweep(bench, name):
    """The disk alone, by size of a request and requests in flight: no process is paused."""
    for block in (512 << 10, MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB):
        for depth in (1, 2, 4, 8, 16, 32, 64):
            if block * depth > 256 * MIB:
                continue
            with disk(bench.node, SWEEP_BYTES, block, depth) as limit:
                for _ in range(bench.rounds):
                    for word in ("write", "read"):
                        bench.add(name, f"{word}, {size(block)} requests, {depth} deep", limit=limit(word))


SUITES = {
    "host": lambda bench: to_host(bench, "host", HOST),
    "segments": lambda bench: to_host(bench, "segments", SEGMENTS, cold=False),
    "large": lambda bench: to_host(bench, "large", LARGE, cold=False),
    "disk": lambda bench: to_disk(bench, "disk", DISK),
    "large-disk": lambda bench: to_disk(bench, "large-disk", LARGE_DISK),
    "chunks": lambda bench: chunks(bench, "chunks"),
    "auto": lambda bench: auto(bench, "auto"),
    "write-behind": lambda bench: write_behind(bench, "write-behind"),
    "prefetch": lambda bench: prefetch(bench, "prefetch"),
    "changed": lambda bench: changed(bench, "changed"),
    "peer": lambda bench: peer(bench, "peer"),
    "sweep": lambda bench: sweep(bench, "sweep"),
}
