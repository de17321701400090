"""The orchestrator's hands: a process that it asks for something, and the moves that make room on the GPU for who is to
work, by Parkade or by nobody."""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import parkade

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from colocated_step import Turns  # noqa: E402

PHASES = ("gate", "drain", "wait", "move", "total")  # of parkade.TransitionResult, in seconds
GIB = 1 << 30


class Side:
    """A process that answers what it is asked, one request after the other; under Parkade where it has a job. In a `with` it
    does not outlive it."""

    def __init__(self, role: str, command: Sequence[str], job: str | None):
        self.role = role
        env = dict(os.environ)
        if job:
            env.update(parkade.environment(job=job, role=role))
            env["LD_PRELOAD"] = parkade.merge_preload(env.get("LD_PRELOAD", ""), parkade.find_library())
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, what: str, **words: Any) -> dict[str, Any]:
        """RuntimeError when the process has ended; why, its standard error says."""
        try:
            print(json.dumps({"do": what, "with": words}), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise RuntimeError(f"{self.role} ended with {self._process.wait()} when it was asked to {what}")
        return json.loads(answer)

    def end(self) -> dict[str, Any]:
        """Its last words, when it has ended."""
        last = self.ask("end")
        self._process.stdin.close()
        if self._process.wait() != 0:
            raise RuntimeError(f"{self.role} ended with {self._process.returncode}")
        return last


class Stay:
    """Whoever is on the GPU stays there. Each method is one move of the loop, which need do nothing here."""

    def arrived(self, role: str) -> None: ...
    def hand(self, out: str, into: str) -> None: ...
    def leave(self, role: str) -> None: ...
    def enter(self, role: str, tags: Sequence[str] = ()) -> None: ...

    def last(self) -> str:
        return ""

    def summary(self) -> str:
        return "nothing was moved"


class Move(Stay):
    """The sides take turns on the GPU."""

    def __init__(self, client: parkade.Client, job: str, tags: Mapping[str, Mapping[str, str]]):
        """`tags`: each role, and what is to become of some of its tags when it goes out."""
        self._turns = Turns(client, job, dict.fromkeys(tags, 1), tags=tags, patience=60.0)
        self._done: dict[str, list[dict[str, float]]] = {}
        self._last: list[str] = []

    def arrived(self, role: str, patience: float = 30.0) -> None:
        """The process of this role is under Parkade, from here on."""
        end = time.monotonic() + patience
        while True:
            try:
                return self._turns.check(role)
            except RuntimeError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.05)

    def hand(self, out: str, into: str) -> None:
        self._timed(f"{out} to {into}", self._turns.hand, out, into)

    def leave(self, role: str) -> None:
        self._timed(f"{role} out", self._turns.leave, role)

    def enter(self, role: str, tags: Sequence[str] = ()) -> None:
        """With these tags alone, or with whatever is out."""
        self._timed(" ".join([role, *tags, "in"]), self._turns.enter, role, tags=tags)

    def _timed(self, name: str, call: Callable[..., list[parkade.TransitionResult]], *roles: str, **options: Any) -> None:
        begin = time.monotonic()
        results = call(*roles, **options)
        took = {phase: max(getattr(r, f"{phase}_seconds") for r in results) for phase in PHASES}
        took["call"] = time.monotonic() - begin
        took["GiB"] = sum(r.host_bytes + r.disk_bytes for r in results) / GIB
        self._done.setdefault(name, []).append(took)
        self._last.append(f"{name} {took['call']:.3f} s (drain {took['drain']:.3f}, move {took['move']:.3f}, {took['GiB']:.1f} GiB)")

    def last(self) -> str:
        """The moves since it was asked last."""
        said, self._last = self._last, []
        return " | " + ", ".join(said)

    def summary(self) -> str:
        columns = ("call", *PHASES, "GiB")
        lines = [f"{'median of':18}{'moves':>6}" + "".join(f"{column:>9}" for column in columns) + f"{'longest':>9}"]
        for name, done in self._done.items():
            medians = "".join(f"{statistics.median(took[column] for took in done):9.3f}" for column in columns)
            lines.append(f"{name:18}{len(done):6}{medians}{max(took['call'] for took in done):9.3f}")
        return "\n".join(lines)
