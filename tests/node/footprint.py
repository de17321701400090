"""What a process holds of the system, as /proc says, and whether it grows; shared by scenarios."""

import pathlib

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


def growth(samples):
    """How much more the last third of the samples shows at its least than the first third at its most."""
    third = max(1, len(samples) // 3)
    return {
        key: min(s[key] for s in samples[-third:]) - max(s[key] for s in samples[:third])
        for key in samples[0]
    }


def check(name, samples):
    """Fails when any figure has grown; says what was measured. Samples of the warm-up are left out."""
    found = growth(samples)
    print(f"{name}: {len(samples)} samples, first {samples[0]}, last {samples[-1]}")
    grown = {key: by for key, by in found.items() if by > ALLOWED_GROWTH[key]}
    if grown:
        raise AssertionError(f"{name} has grown by {grown}")
