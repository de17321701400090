"""Names for the GPU memory that this process allocates, by which pauses choose what becomes of it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from .library import checked_name, library

_DEPTH = 16  # PARKADE_TAG_DEPTH of parkade.h

# torch.cuda.MemPool by tag and device, for as long as the process lives: its memory is theirs.
_pools: dict[tuple[str, int], object] = {}


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
    ours, text = library(), checked_name("tag", name)
    if ours is not None and ours.parkade_tag_push(text) != 0:
        raise RuntimeError(f"tags nest deeper than {_DEPTH}")
    try:
        with _pool(name):
            yield
    finally:
        if ours is not None:
            ours.parkade_tag_pop()


def _pool(name: str) -> contextlib.AbstractContextManager[object]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return contextlib.nullcontext()
    device = torch.cuda.current_device()
    if (name, device) not in _pools:
        _pools[name, device] = torch.cuda.MemPool()  # none must go while another one is in use
    return torch.cuda.use_mem_pool(_pools[name, device], device)
