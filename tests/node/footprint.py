"""What a process holds of the system, as /proc says, and whether it grows; shared by scenarios."""

import pathlib
from statistics import median

# After all was freed and given back the same is held again, but for what the C library's allocator
# keeps in its free lists, and for stacks of threads that are kept for the next.
ALLOWED_GROWTH = {"descriptors": 0, "files": 0, "threads": 0, "ranges": 4, "address_bytes": 16 << 20, "resident_bytes": 4 << 20}

# For the environment of what is measured: glibc reserves an arena of 64 MiB for a thread whenever it likes.
ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}


def of(pid, folders=()):
    """What the process holds now, and how many files there are below `folders`."""
    process = pathlib.Path("/proc") / str(pid)
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return {
        "descriptors": len(list((process / "fd").iterdir())),
        "files": sum(1 for folder in folders for _ in pathlib.Path(folder).rglob("*")),
        "threads": len(list((process / "task").iterdir())),
        "ranges": len((process / "maps").read_text().splitlines()),
        "address_bytes": int(status["VmSize"].split()[0]) << 10,
        "resident_bytes": int(status["VmRSS"].split()[0]) << 10,
    }


# Of these a library may take more once, at any time, and keep it. What leaks goes on growing.
MAY_STEP = ("ranges", "address_bytes", "resident_bytes")


def growth(samples):
    """How much more the last third of the samples shows at its least than the first third at its most; of what may step,
    twice the smaller of the two steps from third to third, by their medians, where that is less."""
    third = max(1, len(samples) // 3)
    thirds = samples[:third], samples[third:-third] or samples[-third:], samples[-third:]
    found = {}
    for key in samples[0]:
        first, middle, last = ([sample[key] for sample in part] for part in thirds)
        found[key] = min(last) - max(first)
        if key in MAY_STEP:
            steps = median(middle) - median(first), median(last) - median(middle)
            found[key] = min(found[key], 2 * min(steps))
    return found


def check(name, samples):
    """Fails when any figure has grown; says what was measured. Samples of the warm-up are left out."""
    found = growth(samples)
    print(f"{name}: {len(samples)} samples, first {samples[0]}, last {samples[-1]}")
    grown = {key: by for key, by in found.items() if by > ALLOWED_GROWTH[key]}
    if grown:
        raise AssertionError(f"{name} has grown by {grown}")
