"""The preloaded libparkade.so of this process."""

from __future__ import annotations

import ctypes
import functools
import re

_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,31}")


@functools.cache
def library() -> ctypes.CDLL | None:
    """The library, or None in a process without it."""
    this = ctypes.CDLL(None)
    return this if hasattr(this, "parkade_version") else None


def checked_name(what: str, name: str) -> bytes:
    """The name of a tag or a hook as the library takes it; ValueError for what it would refuse."""
    if not _NAME.fullmatch(name):
        raise ValueError(f'{what} {name!r}: 1 to 31 letters, digits and signs of "_-.:/"')
    return name.encode()
