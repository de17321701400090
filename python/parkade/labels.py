"""Who a process is and how it wants to be parked, as the environment that its library reads."""

from __future__ import annotations

import os

# Bytes that the library takes, as in proto/wire.h.
_LONGEST = {"job": 63, "role": 31, "cell": 31}


def environment(
    *,
    job: str | None = None,
    role: str | None = None,
    cell: str | None = None,
    rank: int | None = None,
    policy: str | None = None,
    scratch_dir: str | None = None,
    runtime_dir: str | None = None,
) -> dict[str, str]:
    """The variables that say so; what is None is left out. ValueError for what the library would refuse."""
    for name, label in (("job", job), ("role", role), ("cell", cell)):
        if label is None:
            continue
        if not label or not label.isprintable() or len(label.encode()) > _LONGEST[name]:
            raise ValueError(f"{name} {label!r}: 1 to {_LONGEST[name]} bytes without control characters")
    if rank is not None and not 0 <= rank < 1 << 31:
        raise ValueError(f"rank {rank} is negative or too large")
    if policy not in (None, "host", "disk", "auto"):
        raise ValueError(f"policy {policy!r} is none of host, disk, auto")
    values = {
        "JOB": job,
        "ROLE": role,
        "CELL": cell,
        "RANK": rank,
        "POLICY": policy,
        "SCRATCH_DIR": scratch_dir,
        "RUNTIME_DIR": runtime_dir,
    }
    return {f"PARKADE_{name}": str(value) for name, value in values.items() if value is not None}


def set_labels(
    *, job: str | None = None, role: str | None = None, cell: str | None = None, rank: int | None = None
) -> None:
    """Labels of this process and of what it starts. Before its first CUDA context; later they have no effect."""
    os.environ.update(environment(job=job, role=role, cell=cell, rank=rank))
