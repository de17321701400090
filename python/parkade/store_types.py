"""What the daemon tells of optimizer stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .enums import StorePlacement, StoreRedundancy, StoreState

__all__ = ["Store", "StorePlacement", "StoreRedundancy", "StoreSegment", "StoreState"]


@dataclass(frozen=True)
class StoreSegment:
    name: str
    encoding: str


@dataclass(frozen=True)
class Store:
    """One optimizer store of one process; `step` is None where it is not filled."""

    pid: int
    job: str
    role: str
    cell: str
    rank: Optional[int]
    name: str
    directories: tuple[str, ...]
    segments: tuple[StoreSegment, ...]
    elements: int
    bucket_elements: int
    buckets: int
    slots: int
    placement: StorePlacement
    file_bytes: int
    host_bytes: int
    device_bytes: int
    redundancy: StoreRedundancy
    state: StoreState
    reason: str
    message: str
    step: Optional[int]
    open_step: Optional[int]
    last_seconds: float
    last_read_bytes: int
    last_written_bytes: int
    read_bytes: int
    written_bytes: int
