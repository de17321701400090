"""The enumerations of the API. Their values are the API's names in lower case."""

from __future__ import annotations

import enum


class Policy(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    HOST = "host"
    DISK = "disk"
    AUTO = "auto"
    DISCARD = "discard"
    KEEP = "keep"


class GateMode(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    CLOSED = "closed"
    OPEN = "open"


class GatedWork(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    BLOCK = "block"
    FAIL = "fail"


class GatedAllocations(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    AS_WORK = "as_work"
    PASS = "pass"


class OnExported(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    KEEP = "keep"
    REFUSE = "refuse"
    BROKER = "broker"


class Overlap(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    HOST = "host"
    GPU = "gpu"
    ORDERED = "ordered"


class Elision(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    HASH = "hash"
    BYTES = "bytes"
    OFF = "off"


class ProcessState(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    RUNNING = "running"
    PREPARING = "preparing"
    PREPARED = "prepared"
    EVICTING = "evicting"
    PAUSED = "paused"
    RESTORING = "restoring"
    PARTLY_MOVED = "partly_moved"
    FAILED = "failed"


class EventKind(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    PRESENT = "present"
    APPEARED = "appeared"
    STATE = "state"
    PROGRESS = "progress"
    GONE = "gone"
    OPERATION = "operation"


class TimelineMarkKind(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    PHASE = "phase"
    END = "end"
    POINT = "point"


class OperationKind(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    PAUSE = "pause"
    RESUME = "resume"
    HANDOFF = "handoff"
    RESERVE = "reserve"
    VERIFY = "verify"
    PREFETCH = "prefetch"
    WRITE_BEHIND = "write_behind"


class OperationState(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class StoreState(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    IDLE = "idle"
    STEPPING = "stepping"
    TORN = "torn"
    FAILED = "failed"


class StorePlacement(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    FILES = "files"
    HOST = "host"
    BOTH = "both"


class StoreRedundancy(str, enum.Enum):
    UNSPECIFIED = "unspecified"
    INPLACE = "inplace"
    ROTATE = "rotate"
    SHADOW = "shadow"
