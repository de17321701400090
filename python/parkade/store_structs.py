"""What parkade_store.h takes and gives, in Python's words and as ctypes structures."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

MOST_SEGMENTS = 16
_u32, _u64, _i32 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32


class StoreCode(enum.IntEnum):
    """Why a call on a store failed; parkade_store.h has a sentence for each."""

    INVAL = -1
    STATE = -2
    IO = -3
    NOSPACE = -4
    CORRUPT = -5
    TORN = -6
    STEP = -7
    LAYOUT = -8
    CUDA = -9
    CALLBACK = -10
    NONFINITE = -11
    UNSUPPORTED = -12
    TIMEOUT = -13
    BUSY = -14
    WEIGHTS = -15
    ABSENT = -16


class StoreError(RuntimeError):
    """A call on a store that failed: `code`, and the library's sentence."""

    def __init__(self, code: int, what: str) -> None:
        self.code = StoreCode(code)
        super().__init__(f"{what} ({self.code.name})")


class Redundancy(enum.IntEnum):
    """What is kept of a bucket's old bytes while new ones are written."""

    INPLACE = 1
    ROTATE = 2
    SHADOW = 3


@dataclasses.dataclass(frozen=True)
class Segment:
    """One state that every element has. `encoding`: fp32, bf16, bf16-nearest, fp16, q8, fp8, lo16 or raw."""

    name: str
    encoding: str = "fp32"
    raw_group_bytes: int = 0  # of raw alone: bytes for 32 elements


@dataclasses.dataclass
class Entry:
    """A contiguous piece of one parameter that this rank owns.

    `weight` and `gradient` are whatever has `__cuda_array_interface__` in float32 or float16 (a torch tensor, which may
    be bfloat16 too), contiguous, and begin at the element `flat_begin`; or None.
    """

    name: str  # the same in every layout: global layer and expert numbers
    global_shape: Sequence[int]
    local_shape: Sequence[int] | None = None  # None: as global_shape
    tp_axis: int = -1  # that tensor parallelism cuts; below 0: none
    tp_offset: int = 0
    flat_begin: int = 0  # of the row-major local tensor; both 0: all of it
    flat_end: int = 0
    group: int = 0  # of hyperparameters
    user_tag: int = 0
    weight: Any = None
    gradient: Any = None


@dataclasses.dataclass(frozen=True)
class Adam:
    """One group's hyperparameters in one step."""

    lr: float
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    l2: bool = False  # weight_decay is added to the gradient (Adam); False: decoupled (AdamW)
    step: int = 0  # of the bias correction; 0: the store's


@dataclasses.dataclass(frozen=True)
class StoreStats:
    """How a store stands; bytes and nanoseconds are sums since it was opened."""

    slots: int
    buckets: int
    open: bool
    committed: int | None  # the last step that is whole; None: it has not been filled
    bucket_elements: int
    read_bytes: int
    written_bytes: int
    waited_ns: int
    device_bytes: int
    host_bytes: int
    file_bytes: int


class CSegment(ctypes.Structure):
    _fields_ = [("struct_size", _u32), ("raw_group_bytes", _u32), ("name", ctypes.c_char_p), ("encoding", ctypes.c_char_p)]


class CEntry(ctypes.Structure):
    _fields_ = [
        ("struct_size", _u32), ("axes", _u32), ("name", ctypes.c_char_p), ("global_shape", ctypes.POINTER(_u64)),
        ("local_shape", ctypes.POINTER(_u64)), ("tp_axis", _i32), ("group", _u32), ("tp_offset", _u64), ("flat_begin", _u64),
        ("flat_end", _u64), ("user_tag", _u64), ("weight", ctypes.c_void_p), ("gradient", ctypes.c_void_p),
        ("weight_type", _u32), ("gradient_type", _u32),
    ]


class COptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", _u32), ("flags", _u32), ("name", ctypes.c_char_p), ("directories", ctypes.POINTER(ctypes.c_char_p)),
        ("directory_count", _u32), ("slots", _u32), ("bucket_elements", _u64), ("device_budget", _u64), ("staging_bytes", _u64),
        ("chunk_bytes", _u64), ("host_bytes", _u64), ("seed", _u64), ("redundancy", _u32), ("segment_count", _u32),
        ("segments", ctypes.POINTER(CSegment)),
    ]


class CPiece(ctypes.Structure):
    _fields_ = [("entry", _u32), ("group", _u32), ("user_tag", _u64), ("param_begin", _u64), ("elements", _u64), ("offset", _u64)]


class CBucket(ctypes.Structure):
    _fields_ = [
        ("struct_size", _u32), ("bucket", _u32), ("bucket_count", _u32), ("piece_count", _u32), ("step", _u64), ("elements", _u64),
        ("pieces", ctypes.POINTER(CPiece)), ("stream", ctypes.c_void_p), ("segments", ctypes.c_void_p * MOST_SEGMENTS),
        ("segment_count", _u32), ("fills", _i32),
    ]


class CAdam(ctypes.Structure):
    _fields_ = [
        ("struct_size", _u32), ("l2", _u32), ("lr", ctypes.c_double), ("beta1", ctypes.c_double), ("beta2", ctypes.c_double),
        ("eps", ctypes.c_double), ("weight_decay", ctypes.c_double), ("step", _u64),
    ]


class CStats(ctypes.Structure):
    _fields_ = [
        ("struct_size", _u32), ("slots", _u32), ("buckets", _u32), ("open", _u32), ("committed", _u64), ("bucket_elements", _u64),
        ("read_bytes", _u64), ("written_bytes", _u64), ("waited_ns", _u64), ("device_bytes", _u64), ("host_bytes", _u64),
        ("file_bytes", _u64),
    ]


class CSave(ctypes.Structure):
    _fields_ = [
        ("struct_size", _u32), ("rank", _u32), ("ranks", _u32), ("generations", _u32), ("directory", ctypes.c_char_p), ("set", _u64),
        ("user", ctypes.c_char_p), ("user_bytes", _u64),
    ]


class CLoad(ctypes.Structure):
    _fields_ = [("struct_size", _u32), ("flags", _u32), ("directory", ctypes.c_char_p), ("step", _u64)]


def sized(kind: type[ctypes.Structure], **fields: Any) -> Any:
    """One of the structures above that says how large it is."""
    return kind(struct_size=ctypes.sizeof(kind), **fields)
