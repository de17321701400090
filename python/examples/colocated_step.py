"""Colocated reinforcement learning under Parkade: the trainer and the rollout engine of one node take turns on its GPUs.

Knows no framework: what one does is given as functions (Loop), and whose memory is on the GPUs is what Turns sees to.
One Turns for each node; the order among nodes is the caller's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import parkade

TRY_AGAIN = ("BUSY", "CAPTURE_ACTIVE", "SHIM_DISCONNECTED", "SHUTTING_DOWN", "UNREACHABLE")


class Turns:
    """Who has the GPUs of this node.

    `sizes`: how many processes each role has here, {"actor": 8, "rollout": 8}. `tags`: what a pause does with the tags
    of a role, {"rollout": {"kv_cache": "discard"}}; a tag that none of its processes has is an error of the pause.
    `epoch`: a number that rises with every start of the caller; the daemon then refuses what an older one still asks.
    `patience`: for how many seconds a call is made again that was refused for a reason of the moment.
    """

    def __init__(
        self,
        client: parkade.Client,
        job: str,
        sizes: Mapping[str, int],
        *,
        tags: Mapping[str, Mapping[str, str]] | None = None,
        epoch: int = 0,
        patience: float = 600.0,
    ):
        self._client, self._job, self._sizes, self._epoch, self._patience = client, job, dict(sizes), epoch, patience
        for role in self._sizes:
            policies = {tag: parkade.Policy(policy) for tag, policy in (tags or {}).get(role, {}).items()}
            client.define_group(parkade.Group(self.group(role), parkade.Selector(job=job, role=role), tag_policies=policies))

    def group(self, role: str) -> str:
        return f"{self._job}.{role}"

    def check(self, *roles: str) -> None:
        """RuntimeError unless all processes are there, of these roles or of every one. One without the library, or without
        a CUDA context yet, is not: it would keep its memory, and nobody would say so."""
        for role in roles or self._sizes:
            found = [process.pid for process in self._client.list_processes(self.group(role))]
            if len(found) != self._sizes[role]:
                raise RuntimeError(f"{len(found)} of {self._sizes[role]} processes of {role} are under Parkade: {found}")

    def hand(self, out: str, into: str) -> list[parkade.TransitionResult]:
        """The GPUs go from one role to the other. Both, or neither: what fails leaves each where it was."""
        return self._ask(self._client.handoff, self.group(out), self.group(into))

    def leave(self, role: str) -> list[parkade.TransitionResult]:
        return self._ask(self._client.pause, self.group(role))

    def enter(self, role: str, wait: float = 60.0, tags: Sequence[str] = ()) -> list[parkade.TransitionResult]:
        """Comes in beside whoever is there, or these tags of it alone, with its gate open: until the rest is back it must not
        touch that. ResourceExhausted names who holds the memory that is missing."""
        return self._ask(self._client.resume, self.group(role), wait_timeout=wait, tags=tags)

    def _ask(self, call: Callable[..., list[parkade.TransitionResult]], *groups: str, **options: Any) -> list[parkade.TransitionResult]:
        """A call says `already` where it finds what it was to do, so that making it again does no harm."""
        end = time.monotonic() + self._patience
        while True:
            try:
                return call(*groups, epoch=self._epoch, **options)
            except parkade.DeadlineExceeded as error:
                if "operation" not in error.details:
                    raise
                self._client.wait_operation(error.details["operation"])  # it goes on; the next call says how it ended
            except (parkade.FailedPrecondition, parkade.Unavailable) as error:
                if error.reason not in TRY_AGAIN or time.monotonic() > end:
                    raise
            time.sleep(0.2)


@dataclass
class Loop:
    """What a framework does. None of these may return while work that it began is still in flight."""

    generate: Callable[[], Any]  # a batch; no request is running or waiting after it
    train: Callable[[Any], None]
    publish: Callable[[], None]  # the trainer puts the new weights where the engine finds them
    load: Callable[[], None]  # the engine takes them, and forgets what it cached of the old ones


def step(turns: Turns, loop: Loop, trainer: str = "actor", rollout: str = "rollout") -> None:
    """Begins and ends with the engine on the GPUs. The two never are there together, so the weights go by way of files
    or host memory."""
    batch = loop.generate()
    turns.hand(rollout, trainer)
    loop.train(batch)
    loop.publish()
    turns.hand(trainer, rollout)
    loop.load()


@dataclass
class SleepyLoop:
    """The same of a framework whose engine gives up its memory by itself, and whose weights go from GPU memory to GPU
    memory: only the trainer is parked."""

    generate: Callable[[], Any]
    sleep: Callable[[], None]  # the engine releases weights and cache
    train: Callable[[Any], None]
    wake_weights: Callable[[], None]
    update: Callable[[], None]  # trainer to engine, both on the GPUs; nothing stays shared after it
    wake_cache: Callable[[], None]


def sleepy_step(turns: Turns, loop: SleepyLoop, trainer: str = "actor") -> None:
    """Begins and ends with the engine awake and the trainer out. At its peak the GPU holds the trainer and the engine's
    weights, without its cache."""
    batch = loop.generate()
    loop.sleep()
    turns.enter(trainer)
    loop.train(batch)
    loop.wake_weights()
    loop.update()
    turns.leave(trainer)
    loop.wake_cache()
