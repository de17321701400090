"""libparkade.so: where it is, and its place in LD_PRELOAD beside what stands there already."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from typing import Mapping

_NAME = "libparkade.so"
# Build tree and bundle, then Debian's and Fedora's layouts, from the folder of the program `parkade`.
_PLACES = ("../lib", "../lib/x86_64-linux-gnu", "../lib/aarch64-linux-gnu", "../lib64")


def find_library() -> str:
    """The file that PARKADE_LIBRARY names, else the one beside this package or the program `parkade`.

    FileNotFoundError says where it was looked for.
    """
    named = os.environ.get("PARKADE_LIBRARY")
    if named:
        candidates = [pathlib.Path(named).absolute()]
    else:
        # The package stands in python/parkade of a build tree or bundle, the library in its lib.
        candidates = [pathlib.Path(__file__).resolve().parents[2] / "lib" / _NAME]
        program = shutil.which("parkade")
        folders = [pathlib.Path(program).resolve().parent] if program else []
        folders.append(pathlib.Path("/usr/bin"))
        candidates += [(folder / place).resolve() / _NAME for folder in folders for place in _PLACES]
    for candidate in candidates:
        if candidate.exists():
            return str(candidate)
    places = ", ".join(str(candidate) for candidate in candidates)
    raise FileNotFoundError(f"no {_NAME}: {places}; PARKADE_LIBRARY can name it")


def merge_preload(preload: str, library: str, environ: Mapping[str, str] = os.environ) -> str:
    """`preload` with `library` at its end, unless it is there already, also by another name.

    ValueError for a path that cannot stand in LD_PRELOAD, and where another libparkade.so does.
    """
    if re.search(r"[: ]", library):
        raise ValueError(f"{library!r} cannot stand in LD_PRELOAD, which is split at colons and spaces")
    entries = [entry for entry in re.split(r"[: ]", preload) if entry]
    for entry in entries:
        file = _resolve(entry, environ)
        if os.path.exists(file) and os.path.exists(library) and os.path.samefile(file, library):
            return preload
        if os.path.basename(entry).startswith(_NAME):
            raise ValueError(f"LD_PRELOAD already names another one, {entry}, beside {library}")
    return f"{preload}:{library}" if entries else library


def _resolve(entry: str, environ: Mapping[str, str]) -> str:
    """The file that the loader takes for an entry of LD_PRELOAD."""
    if "/" in entry:
        return entry
    for folder in re.split("[:;]", environ.get("LD_LIBRARY_PATH", "")):
        file = os.path.join(folder or ".", entry)
        if os.path.exists(file):
            return file
    return entry
