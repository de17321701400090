"""Functions of this process that run before it is paused and after it runs again."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import traceback
from collections.abc import Callable

from .library import checked_name, library

_BEFORE_PAUSE, _AFTER_RESUME, _MOST_SECONDS = 1, 2, 10.0  # of parkade.h
_Function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_running: list[Hook] = []
_MEANING = {-1: "the library refuses it", -2: "it still runs", -3: "too many are registered"}


class Hook:
    """One registration; ends with `remove()`, or with the interpreter."""

    def __init__(self, when: int, function: Callable[[], object], name: str, timeout: float) -> None:
        text = checked_name("hook", name)
        if not 0.001 <= timeout <= _MOST_SECONDS:
            raise ValueError(f"timeout {timeout} s: 1 ms to {_MOST_SECONDS:g} s")

        def run(_user: int | None) -> int:
            try:
                function()
            except BaseException:  # no exception crosses into the library
                with contextlib.suppress(BaseException):  # standard error may be closed
                    traceback.print_exc()
                return 1
            return 0

        self._function = _Function(run)  # for as long as the library may call it
        self._number = 0
        ours = library()
        if ours is None:
            return
        number = ours.parkade_hook_add(when, text, self._function, None, ctypes.c_uint(int(timeout * 1000)))
        if number < 0:
            raise RuntimeError(f"hook {name}: {_MEANING[number]}")
        self._number = number
        atexit.register(self.remove)

    def remove(self) -> None:
        """It does not run again, and where it runs on another thread, this waits for its end. RuntimeError when
        that has not come after 10 s."""
        number, self._number = self._number, 0
        if number == 0:
            return
        atexit.unregister(self.remove)
        code = library().parkade_hook_remove(number)
        if code < 0:
            _running.append(self)  # for as long as the library may be in it
            raise RuntimeError(f"hook {number}: {_MEANING[code]}")


def before_pause(function: Callable[[], object], *, name: str = "python", timeout: float = 5.0) -> Hook:
    """Has `function()` run before each pause of this process, while it still runs.

    It runs on a thread of the library's, one after the other with other hooks, and may use the GPU. When it raises, or
    takes longer than `timeout` seconds (10 at most), the pause fails (HOOK_FAILED, HOOK_TIMEOUT) with `name` in its
    message, and the process runs on. Nothing happens in a process without libparkade.so.
    """
    return Hook(_BEFORE_PAUSE, function, name, timeout)


def after_resume(function: Callable[[], object], *, name: str = "python", timeout: float = 5.0) -> Hook:
    """The same once the process runs again, also after a pause that was undone. A failure is an event in
    `parkade show`."""
    return Hook(_AFTER_RESUME, function, name, timeout)
