"""Names for the GPU memory that this process allocates, by which pauses choose what becomes of it."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import sys
from collections.abc import Iterator

_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,31}")
_DEPTH = 16  # PARKADE_TAG_DEPTH of parkade.h

# torch.cuda.MemPool by tag and device, for as long as the process lives: its memory is theirs.
_pools: dict[tuple[str, int], object] = {}


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The preloaded libparkade.so, or None in a process without it."""
    this = ctypes.CDLL(None)
    return this if hasattr(this, "parkade_tag_push") else None


@contextlib.contextmanager
def tag(name: str) -> Iterator[None]:
    """GPU memory that this thread allocates inside bears the tag; the innermost counts.

    Where torch is loaded and uses CUDA, tensors made inside come from a memory pool of the tag's own on
    the current device, since torch would otherwise give out memory again that it got under another tag.
    Pools stay, so that leaving and entering again reuses their memory. Without libparkade.so there is
    nothing but these pools.

    name: 1 to 31 letters, digits and signs of "_-.:/"; ValueError for another. RuntimeError when tags
    nest deeper than 16.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f'tag {name!r}: 1 to 31 letters, digits and signs of "_-.:/"')
    library = _library()
    if library is not None and library.parkade_tag_push(name.encode()) != 0:
        raise RuntimeError(f"tags nest deeper than {_DEPTH}")
    try:
        with _pool(name):
            yield
    finally:
        if library is not None:
            library.parkade_tag_pop()


def _pool(name: str) -> contextlib.AbstractContextManager[object]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return contextlib.nullcontext()
    device = torch.cuda.current_device()
    pool = _pools.setdefault((name, device), torch.cuda.MemPool())
    return torch.cuda.use_mem_pool(pool, device)
