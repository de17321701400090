"""A bucket of a store as a callback sees it: arrays in GPU memory, without copies."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from .store_structs import CBucket


@dataclasses.dataclass(frozen=True)
class DeviceArray:
    """Elements in GPU memory; torch.as_tensor, cupy.asarray and numba take it as it is, without a copy.

    It is valid until its bucket is submitted, or the callback returns, and is used on the bucket's stream.
    """

    address: int
    elements: int
    typestr: str  # as numpy has it
    stream: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        # 1 is the legacy default stream, which 0 must not name there.
        return {"version": 3, "shape": (self.elements,), "typestr": self.typestr, "data": (self.address, False),
                "strides": None, "stream": self.stream or 1}

    def part(self, begin: int, elements: int) -> DeviceArray:
        """Elements [begin, begin + elements)."""
        if begin < 0 or elements < 0 or begin + elements > self.elements:
            raise IndexError(f"elements [{begin}, {begin + elements}) of {self.elements}")
        size = int(self.typestr[2:])
        return dataclasses.replace(self, address=self.address + begin * size, elements=elements)

    def tensor(self) -> Any:
        """As a torch tensor on the GPU that has it."""
        import torch

        return torch.as_tensor(self, device="cuda")


@dataclasses.dataclass(frozen=True)
class Piece:
    """A part of an entry in a bucket."""

    entry: int  # its index in the store's entries
    group: int
    user_tag: int
    param_begin: int  # in the local tensor
    elements: int
    offset: int  # in each segment


class Bucket:
    """One bucket of one step. Elements between the pieces are padding, and not to be touched."""

    def __init__(self, raw: CBucket, is_raw: tuple[bool, ...]) -> None:
        self.number, self.count, self.step = raw.bucket, raw.bucket_count, raw.step
        self.elements, self.stream = raw.elements, raw.stream or 0
        self.fills = bool(raw.fills)  # the first segment alone, undefined and to be filled
        self.pieces = tuple(Piece(p.entry, p.group, p.user_tag, p.param_begin, p.elements, p.offset)
                            for p in raw.pieces[:raw.piece_count])
        self._segments = tuple(raw.segments[:raw.segment_count])
        self._is_raw = is_raw

    @functools.cached_property
    def segments(self) -> tuple[DeviceArray | int, ...]:
        """Each segment's elements in float32; of a raw one the address of its bytes."""
        return tuple(address if raw else DeviceArray(address, self.elements, "<f4", self.stream)
                     for address, raw in zip(self._segments, self._is_raw))

    def view(self, segment: int, piece: Piece) -> DeviceArray:
        """A piece's elements of a segment that is not raw."""
        whole = self.segments[segment]
        if isinstance(whole, int):
            raise TypeError(f"segment {segment} is raw: it has bytes and no elements")
        return whole.part(piece.offset, piece.elements)
