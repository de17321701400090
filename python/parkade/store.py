"""Optimizer state that lives outside GPU memory and streams through it; docs/streaming.md, and parkade_store.h for the
rules on threads, streams and errors."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .library import library
from .store_bucket import Bucket
from .store_structs import (
    Adam, CAdam, CBucket, CEntry, CLoad, COptions, CSave, CSegment, CStats, Entry, Redundancy, Segment, StoreCode, StoreError,
    StoreStats, sized,
)

_KEPT, _IN_MEMORY, _NEAREST, _PHASED, _MIXED = 1, 2, 4, 8, 16
_CONVERT, _THIS_STEP = 1, 2
_ZERO_MOMENTS = 1
_TYPES = {"<f4": 1, "<f2": 3}
_BF16 = 2
_Function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(CBucket), ctypes.c_void_p)
_DEFAULT = (Segment("main"), Segment("exp_avg"), Segment("exp_avg_sq"))
Update = Callable[[Bucket], object]


def _address_and_type(array: Any, what: str) -> tuple[int | None, int]:
    if array is None:
        return None, 0
    if str(getattr(array, "dtype", "")) == "torch.bfloat16":  # the array interface has no name for it
        if not array.is_contiguous() or not array.is_cuda:
            raise ValueError(f"{what}: a contiguous tensor on a GPU")
        return array.data_ptr() or None, _BF16
    interface = array.__cuda_array_interface__
    if interface.get("strides") is not None or interface["typestr"] not in _TYPES:
        raise ValueError(f"{what}: contiguous float32, float16 or bfloat16, not {interface['typestr']}")
    return interface["data"][0] or None, _TYPES[interface["typestr"]]


def _strings(texts: Sequence[str]) -> Any:
    return (ctypes.c_char_p * max(len(texts), 1))(*(os.fsencode(text) for text in texts))


class Store:
    """One rank's store. Not thread-safe, but for `stats()`; closed by `close()` or as a context manager.

    Sizes are in bytes. `keep` of an earlier owner's close is taken over with `kept=True`. `directories`: absolute, none:
    all is in host memory, up to `host_bytes`. `phased`: whether reads and writes take turns at the disk; without a word the
    first steps try both. Raises StoreError, ValueError and TypeError.
    """

    def __init__(
        self, entries: Sequence[Entry], *, directories: Sequence[str] = (), name: str = "store",
        segments: Sequence[Segment] = _DEFAULT, slots: int = 0, bucket_elements: int = 0, device_budget: int = 0,
        staging_bytes: int = 0, chunk_bytes: int = 0, host_bytes: int = 0, seed: int = 0,
        redundancy: Redundancy = Redundancy.INPLACE, kept: bool = False, in_memory: bool = False, nearest: bool = False,
        phased: bool | None = None,
    ) -> None:
        self._handle = ctypes.c_void_p()
        ours = library()
        if ours is None or not hasattr(ours, "parkade_store_open"):
            raise StoreError(StoreCode.ABSENT, "this process runs without libparkade.so: start it by `parkade run`")
        self._library = ours
        self._is_raw = tuple(segment.encoding == "raw" for segment in segments)
        shapes: list[Any] = []  # what the structures point to, until the library has copied it

        def shape(sizes: Sequence[int]) -> Any:
            shapes.append((ctypes.c_uint64 * max(len(sizes), 1))(*sizes))
            return shapes[-1]

        c_entries = (CEntry * max(len(entries), 1))()
        for c, entry in zip(c_entries, entries):
            weight, weight_type = _address_and_type(entry.weight, f"weight of {entry.name}")
            gradient, gradient_type = _address_and_type(entry.gradient, f"gradient of {entry.name}")
            local = None if entry.local_shape is None else shape(entry.local_shape)
            c.__init__(ctypes.sizeof(CEntry), len(entry.global_shape), entry.name.encode(), shape(entry.global_shape), local,
                       entry.tp_axis, entry.group, entry.tp_offset, entry.flat_begin, entry.flat_end, entry.user_tag, weight,
                       gradient, weight_type, gradient_type)
        c_segments = (CSegment * max(len(segments), 1))(
            *(sized(CSegment, raw_group_bytes=s.raw_group_bytes, name=s.name.encode(), encoding=s.encoding.encode()) for s in segments))
        flags = kept * _KEPT | in_memory * _IN_MEMORY | nearest * _NEAREST | (phased is True) * _PHASED | (phased is False) * _MIXED
        options = sized(
            COptions, flags=flags, name=name.encode(), directories=_strings(directories), directory_count=len(directories),
            slots=slots, bucket_elements=bucket_elements, device_budget=device_budget, staging_bytes=staging_bytes,
            chunk_bytes=chunk_bytes, host_bytes=host_bytes, seed=seed, redundancy=redundancy, segment_count=len(segments),
            segments=c_segments)
        self._call("open", ctypes.byref(options), c_entries, ctypes.c_size_t(len(entries)), ctypes.byref(self._handle), of=None)

    def _call(self, name: str, *arguments: Any, of: ctypes.c_void_p | None = None) -> int:
        code = getattr(self._library, f"parkade_store_{name}")(*arguments)
        if code < 0:
            text = ctypes.create_string_buffer(256)
            self._library.parkade_store_last_error(of, text, ctypes.c_size_t(len(text)))
            raise StoreError(code, os.fsdecode(text.value) or f"parkade_store_{name}")
        return code

    def _own(self, name: str, *arguments: Any) -> int:
        if not self._handle:
            raise ValueError("the store is closed")
        return self._call(name, self._handle, *arguments, of=self._handle)

    def _with(self, update: Update, name: str, *arguments: Any) -> None:
        """Calls with a C callback that has `update` see each bucket; what it raises, this raises."""
        raised: list[BaseException] = []

        def run(bucket: Any, _user: int | None) -> int:
            try:
                update(Bucket(bucket.contents, self._is_raw))
            except BaseException as error:  # no exception crosses into the library
                raised.append(error)
                return -1
            return 0

        try:
            self._own(name, *arguments, _Function(run), None)
        except StoreError:
            if raised:
                raise raised[0] from None
            raise

    # ---- steps ----

    def set_tensors(self, entry: int, weight: Any = None, gradient: Any = None) -> None:
        """From now on the entry's tensors are these."""
        weight_at, weight_type = _address_and_type(weight, f"weight of entry {entry}")
        gradient_at, gradient_type = _address_and_type(gradient, f"gradient of entry {entry}")
        self._own("set_tensors", ctypes.c_uint32(entry), ctypes.c_void_p(weight_at), ctypes.c_uint32(weight_type),
                  ctypes.c_void_p(gradient_at), ctypes.c_uint32(gradient_type))

    def fill(self, step: int = 0, fill: Update | None = None, *, stream: int = 0) -> None:
        """Fills a new store: main by `fill`, or with the weights, widened; the moments are zero. Waits for the end."""
        if fill is None:
            self._own("fill", ctypes.c_uint64(step), ctypes.c_void_p(stream), None, None)
        else:
            self._with(fill, "fill", ctypes.c_uint64(step), ctypes.c_void_p(stream))

    def begin(self, step: int, *, stream: int = 0) -> None:
        """Begins a step, and reading."""
        self._own("step_begin", ctypes.c_uint64(step), ctypes.c_void_p(stream))

    def acquire(self, timeout: float | None = None) -> Bucket | None:
        """The next bucket, until it is submitted; None: there is no other. `timeout` in seconds; None: no limit."""
        raw = sized(CBucket)
        found = self._own("acquire", ctypes.byref(raw), ctypes.c_int(-1 if timeout is None else int(timeout * 1000)))
        return Bucket(raw, self._is_raw) if found else None

    def submit(self, bucket: Bucket) -> None:
        """All work on the bucket has been queued on its stream."""
        self._own("submit", ctypes.c_uint32(bucket.number))

    def release(self, bucket: Bucket) -> None:
        """The bucket was only looked at; the step can then but be aborted."""
        self._own("release", ctypes.c_uint32(bucket.number))

    def end(self) -> None:
        """Every bucket was submitted: weights are ready in the stream's order; writes go on."""
        self._own("step_end")

    def abort(self) -> None:
        """Gives the open step up. StoreError TORN when some of it was written."""
        self._own("step_abort")

    def buckets(self, step: int, *, stream: int = 0) -> Iterator[Bucket]:
        """A whole step by a loop: each bucket is submitted when the loop asks for the next one. Leaving the loop early
        gives the step up."""
        self.begin(step, stream=stream)
        done = False
        try:
            while (bucket := self.acquire()) is not None:
                yield bucket
                self.submit(bucket)
            self.end()
            done = True
        finally:
            if not done:
                self.abort()

    def step(self, step: int, update: Update, *, stream: int = 0) -> None:
        """A whole step by a callback, which queues its work on the bucket's stream. What it raises gives the step up, and
        is raised here."""
        self._with(update, "step_run", ctypes.c_uint64(step), ctypes.c_void_p(stream))

    def step_adam(
        self, step: int, groups: Sequence[Adam], *, gradient_factor: float = 1.0, skip_nonfinite: bool = False, stream: int = 0,
    ) -> bool:
        """A whole step of Adam or AdamW by the built-in kernel. False: skipped, for gradients that are not finite."""
        c_groups = (CAdam * max(len(groups), 1))(
            *(sized(CAdam, l2=int(g.l2), lr=g.lr, beta1=g.beta1, beta2=g.beta2, eps=g.eps, weight_decay=g.weight_decay, step=g.step)
              for g in groups))
        try:
            self._own("step_adam", ctypes.c_uint64(step), ctypes.c_void_p(stream), c_groups, ctypes.c_uint32(len(groups)),
                      ctypes.c_float(gradient_factor), ctypes.c_int(skip_nonfinite))
        except StoreError as error:
            if error.code is StoreCode.NONFINITE and skip_nonfinite and not self.stats().open:
                return False
            raise
        return True

    def drain(self, timeout: float | None = None) -> None:
        """Waits until the last step's bytes are where they belong."""
        self._own("drain", ctypes.c_int(-1 if timeout is None else int(timeout * 1000)))

    def stats(self) -> StoreStats:
        """How it stands. Any thread."""
        raw = sized(CStats)
        self._own("stats_get", ctypes.byref(raw))
        values = {name: getattr(raw, name) for name, _ in CStats._fields_ if name != "struct_size"}
        values["open"] = bool(raw.open)
        values["committed"] = None if raw.committed == 2**64 - 1 else raw.committed
        return StoreStats(**values)

    # ---- checkpoints ----

    def save(self, directory: str, *, rank: int = 0, ranks: int = 1, set: int = 0, generations: int = 0, user: bytes = b"",
             stream: int = 0) -> None:
        """Begins to save the last step in `directory`, beside the steps that follow. `set`: a random number that all
        ranks of this save share. `generations`: complete checkpoints to leave; 0: all."""
        options = sized(CSave, rank=rank, ranks=ranks, generations=generations, directory=os.fsencode(directory), set=set,
                        user=user, user_bytes=len(user))
        self._own("save", ctypes.byref(options), ctypes.c_void_p(stream))

    def save_wait(self, timeout: float | None = None) -> bool:
        """Waits for the save. True: the checkpoint is complete; False: another rank's part is missing yet."""
        return self._own("save_wait", ctypes.c_int(-1 if timeout is None else int(timeout * 1000))) == 1

    def load(self, directory: str, step: int | None = None, *, convert: bool = False, stream: int = 0) -> None:
        """Loads a checkpoint, the newest complete one where no step is said, into a store that has not been filled, and
        its weights. Everything is checked before a byte is touched."""
        flags = convert * _CONVERT | (step is not None) * _THIS_STEP
        options = sized(CLoad, flags=flags, directory=os.fsencode(directory), step=step or 0)
        self._own("load", ctypes.byref(options), ctypes.c_void_p(stream))

    def import_tensors(self, files: Sequence[str], *, zero_moments: bool = False, stream: int = 0) -> None:
        """Likewise whole tensors of safetensors files."""
        self._own("import", _strings(files), ctypes.c_size_t(len(files)), ctypes.c_uint32(zero_moments * _ZERO_MOMENTS),
                  ctypes.c_void_p(stream))

    def close(self, *, keep: bool = False) -> None:
        """Gives an open step up, waits for the last bytes and a save, and removes the files, unless `keep`. Once."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            self._call("close", handle, ctypes.c_int(keep), of=None)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
