"""What the API speaks of, as in control.proto, which says what each field means.

A field that the daemon has not set is None where that differs from zero. An enumeration's values are
its names in lower case; one that this version does not know reads as `UNSPECIFIED`.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Mapping, Optional, Sequence, Union

from .enums import (
    Elision,
    EventKind,
    GateMode,
    GatedAllocations,
    GatedWork,
    OnExported,
    OperationKind,
    OperationState,
    Overlap,
    Policy,
    ProcessState,
    TimelineMarkKind,
)
from .store_types import Store, StorePlacement, StoreRedundancy, StoreSegment, StoreState


@dataclass(frozen=True)
class Selector:
    """Which processes: all that is given must match."""

    pids: Sequence[int] = ()
    job: str = ""
    role: str = ""
    cell: str = ""
    ranks: Sequence[int] = ()
    gpu_uuids: Sequence[str] = ()
    all: bool = False
    group: str = ""


# What a call is about: a selector, the pid of one process, or the name of a group.
Target = Union[Selector, int, str]


@dataclass(frozen=True)
class Group:
    """Processes and what a pause does with their tags, under a name."""

    name: str
    selector: Selector
    policy: Policy = Policy.UNSPECIFIED
    tag_policies: Mapping[str, Policy] = field(default_factory=dict)
    configured: bool = False


@dataclass(frozen=True)
class ForeignMemory:
    kind: str
    bytes: int
    advice: str


@dataclass(frozen=True)
class ProcessDevice:
    gpu_uuid: str
    ordinal: int
    resident_bytes: int
    requested_bytes: int
    foreign_bytes: int
    foreign: tuple[ForeignMemory, ...]


@dataclass(frozen=True)
class Progress:
    done_bytes: int
    total_bytes: int
    bytes_per_second: float
    time_left: Optional[float]


@dataclass(frozen=True)
class Process:
    pid: int
    start_ticks: int
    uid: int
    command: str
    job: str
    role: str
    cell: str
    rank: Optional[int]
    state: ProcessState
    connected: bool
    devices: tuple[ProcessDevice, ...]
    host_backup_bytes: int
    disk_backup_bytes: int
    host_pool_bytes: int
    host_retained_bytes: int
    disk_retained_bytes: int
    progress: Optional[Progress]
    allocation_count: int
    gated_threads: int
    unhooked_names: int
    settings: tuple[str, ...]
    warnings: tuple[str, ...]
    scratch_dir: str
    shim_version: str
    gate_mode: GateMode
    epoch: int
    pinned_bytes: int
    events: tuple[str, ...]
    deep: bool
    takes_turns: bool
    asks_turn: bool
    out_for_turn: bool


@dataclass(frozen=True)
class Allocation:
    address: int
    bytes: int
    device: int
    tag: str
    allocation_class: str
    place: str


@dataclass(frozen=True)
class ProcessDetails:
    process: Process
    allocations: tuple[Allocation, ...]


@dataclass(frozen=True)
class GpuUser:
    pid: int
    used_bytes: int
    managed: bool
    managed_bytes: int


@dataclass(frozen=True)
class Waiter:
    """Somebody in the queue for memory of a GPU; `operation_id` is empty for another user's."""

    operation_id: str
    position: int
    priority: int
    needed_bytes: int
    waited_seconds: float


@dataclass(frozen=True)
class Reservation:
    """Memory of a GPU that is kept from others. `time_left` is None for one without an end."""

    id: str
    owner: str
    label: str
    gpu_uuid: str
    bytes: int
    time_left: Optional[float]
    pid: int


@dataclass(frozen=True)
class Gpu:
    uuid: str
    name: str
    total_bytes: int
    free_bytes: int
    users: tuple[GpuUser, ...]
    booked_bytes: int
    reserved_bytes: int
    waiting: tuple[Waiter, ...]
    reservations: tuple[Reservation, ...]
    managed_bytes: int
    unexplained_bytes: int


@dataclass(frozen=True)
class ScratchBase:
    path: str
    usable: bool
    reason: str
    free_bytes: int
    used_bytes: int
    request_bytes: int
    depth: int
    registered_memory: bool
    write_gbps: float
    read_gbps: float
    stripe: bool


@dataclass(frozen=True)
class Budget:
    """What backups may take and take; of the whole node where `job` is empty. 0: as much as there is."""

    job: str
    host_bytes: int
    disk_bytes: int
    host_used_bytes: int
    disk_used_bytes: int
    over: bool


@dataclass(frozen=True)
class Node:
    daemon_version: str
    gpus: tuple[Gpu, ...]
    host_total_bytes: int
    host_available_bytes: int
    scratch_bases: tuple[ScratchBase, ...]
    gpu_source: str
    budgets: tuple[Budget, ...]


@dataclass(frozen=True)
class GpuChange:
    uuid: str
    free_before_bytes: int
    free_after_bytes: int
    expected_bytes: int
    peak_bytes: int
    allowed_bytes: int


@dataclass(frozen=True)
class WrongBlock:
    """A block of a backup that is not what was stored; `file` and `offset` are of one on disk."""

    address: int
    bytes: int
    device: int
    place: str
    file: int
    offset: int
    missing: bool


@dataclass(frozen=True)
class Failure:
    code: int
    reason: str
    message: str
    metadata: dict[str, str]


@dataclass(frozen=True)
class DeepStep:
    """The driver's process checkpoint of a process, or why there is none. `errors.of(refusal)` is its exception."""

    deep: bool
    freed_bytes: int
    seconds: float
    refusal: Optional[Failure]


@dataclass(frozen=True)
class TransitionResult:
    """What became of one process in a pause, resume, handoff, verify, prefetch or write-behind.

    `left_bytes` is what a prefetch or write-behind has not moved; `write_behind_id` is the operation that
    moves the bytes of a pause on to disk."""

    pid: int
    already: bool
    state: ProcessState
    host_bytes: int
    disk_bytes: int
    discarded_bytes: int
    kept_bytes: int
    released_bytes: int
    gate_seconds: float
    drain_seconds: float
    move_seconds: float
    total_seconds: float
    residue_bytes: int
    gpus: tuple[GpuChange, ...]
    let_through: int
    wait_seconds: float
    elided_bytes: int
    wrong_block_count: int
    wrong_blocks: tuple[WrongBlock, ...]
    deep: Optional[DeepStep]
    left_bytes: int
    write_behind_id: str


@dataclass(frozen=True)
class ScratchEntry:
    path: str
    pid: int
    uid: int
    bytes: int
    dead: bool
    reason: str


@dataclass(frozen=True)
class TagForecast:
    tag: str
    policy: Policy
    host_bytes: int
    disk_bytes: int
    discarded_bytes: int
    kept_bytes: int


@dataclass(frozen=True)
class GpuDemand:
    uuid: str
    needed_bytes: int


@dataclass(frozen=True)
class ProcessForecast:
    pid: int
    already: bool
    tags: tuple[TagForecast, ...]
    gpus: tuple[GpuDemand, ...]
    host_bytes: int
    disk_bytes: int
    new_host_bytes: int


@dataclass(frozen=True)
class Forecast:
    """What a call would do now. `errors.of(refusal)` is the exception that it would raise."""

    processes: tuple[ProcessForecast, ...]
    refusals: tuple[Failure, ...]
    seconds: float


@dataclass(frozen=True)
class FreeMemory:
    """What a GPU has free, as the driver says, and what of it resumes have booked, or others reserved."""

    free_bytes: int
    booked_bytes: int
    waited_seconds: float
    reserved_bytes: int


@dataclass(frozen=True)
class GpuWait:
    """What a request waits for on one GPU, and its place in the queue there."""

    gpu_uuid: str
    needed_bytes: int
    free_bytes: int
    booked_bytes: int
    reserved_bytes: int
    ahead_bytes: int
    position: int
    priority: int
    waited_seconds: float


@dataclass(frozen=True)
class Operation:
    """A pause, resume, handoff, reserve, verify, prefetch or write-behind. `errors.of(operation.failure)` is the exception of one that has failed."""

    id: str
    request_id: str
    caller: str
    kind: OperationKind
    state: OperationState
    cancel_requested: bool
    pids: tuple[int, ...]
    progress: Optional[Progress]
    begin_time: datetime.datetime
    end_time: Optional[datetime.datetime]
    results: tuple[TransitionResult, ...]
    failure: Optional[Failure]
    waiting: tuple[GpuWait, ...]


@dataclass(frozen=True)
class Event:
    """Of a process, or, of kind `operation`, of an operation."""

    time: datetime.datetime
    kind: EventKind
    process: Optional[Process]
    operation: Optional[Operation]


@dataclass(frozen=True)
class TimelineMark:
    kind: TimelineMarkKind
    name: str
    job: str
    time: datetime.datetime
    owner: str
