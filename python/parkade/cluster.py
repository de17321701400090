"""ClusterClient: one pause, resume or handoff on many nodes, each with a daemon of its own. One event loop each.

The daemons know nothing of each other. Order between callers comes from the generation, which every daemon keeps
with the processes that it moves (their epoch) and compares.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Iterable, Mapping, TypeVar

from . import calls, errors, types
from .aio import AsyncClient

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")

LOOK = 10.0  # seconds for a node to answer a question before anything moves


@dataclasses.dataclass(frozen=True)
class NodeOutcome:
    """What came of one node: results, or the error; then what came of taking it back, where that was tried.

    `may_have_moved`: nobody knows. The node did not answer in time, or is out of reach; whatever it was doing goes
    on there, and its daemon has it under `request_id`.
    """

    node: str
    request_id: str
    results: tuple[types.TransitionResult, ...] = ()
    error: errors.Error | None = None
    seconds: float = 0.0
    may_have_moved: bool = False
    taken_back: bool = False
    take_back_error: errors.Error | None = None


@dataclasses.dataclass(frozen=True)
class ClusterOutcome:
    """Of all nodes, in their order. `seconds` is the whole call's."""

    generation: int
    seconds: float
    nodes: tuple[NodeOutcome, ...]

    @property
    def results(self) -> list[types.TransitionResult]:
        return [result for node in self.nodes for result in node.results]

    @property
    def failed(self) -> list[NodeOutcome]:
        return [node for node in self.nodes if node.error is not None]


class ClusterError(Exception):
    """Not done everywhere. `phase` is "look": nothing has moved anywhere; or "move": `outcome` says of each node
    where it is. Each node's own error is in its outcome."""

    def __init__(self, phase: str, outcome: ClusterOutcome):
        failed = outcome.failed
        named = "; ".join(f"{node.node}: {node.error}" for node in failed[:3])
        more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
        happened = "nothing has moved" if phase == "look" else "the outcome says where each node is"
        super().__init__(f"{len(failed)} of {len(outcome.nodes)} nodes: {named}{more} ({happened})")
        self.phase = phase
        self.outcome = outcome


class ClusterClient:
    """The calls of AsyncClient that move bytes, on all nodes at once, in two phases.

    First every node is asked what the call would do and what would refuse it, which moves nothing: one refusal, or one
    node that does not answer, ends it there. Then all move. Where one then fails after all, a pause or handoff is
    taken back on the nodes that had gone through it: the processes that it had moved, whole, come back. With `keep=True`
    it is left as it is. A resume is never taken back: who runs, runs.

    `generation` must rise from call to call of a job, whoever makes them: a daemon that has seen a higher one refuses
    (STALE_EPOCH), so that a controller that was replaced, or a call that was held up on the way, does no harm. It
    is also in the request ids: the same call with the same generation is the same call, and gives the first answer
    of those nodes that have one. That is how to go on after an error, but for one after which was taken back: then
    with a higher one.
    """

    def __init__(self, clients: Mapping[str, AsyncClient]):
        """`clients`: by node, closed with this one."""
        if not clients:
            raise errors.InvalidArgument("a cluster has at least one node")
        self._clients = dict(clients)

    @classmethod
    def at(cls, nodes: Iterable[str], *, port: int = 0, **credentials: Any) -> ClusterClient:
        """`nodes`: "host:port", or "host" with `port`; `credentials` as AsyncClient takes them."""
        addresses = [node if ":" in node else f"{node}:{port}" for node in nodes]
        return cls({address: AsyncClient(address=address, **credentials) for address in addresses})

    @property
    def nodes(self) -> list[str]:
        return list(self._clients)

    async def close(self) -> None:
        await asyncio.gather(*(client.close() for client in self._clients.values()))

    async def __aenter__(self) -> ClusterClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def ask(self, call: Callable[[AsyncClient], Awaitable[T]]) -> dict[str, T | errors.Error]:
        """Any question to every node at once; the answer of each, or its error."""

        async def one(client: AsyncClient) -> T | errors.Error:
            try:
                return await call(client)
            except errors.Error as error:
                return error

        answers = await asyncio.gather(*(one(client) for client in self._clients.values()))
        return dict(zip(self._clients, answers))

    async def list_processes(self, target: types.Target | None = None) -> dict[str, list[types.Process] | errors.Error]:
        return await self.ask(lambda client: client.list_processes(target))

    async def pause(self, target: types.Target, *, generation: int, keep: bool = False, **options: Unpack[calls.PauseOptions]) -> ClusterOutcome:
        """As AsyncClient.pause. A node without such a process is passed over, unless none has one."""
        return await self._move(
            "pause", generation, options,
            lambda client, all: client.forecast_pause(target, **all),
            lambda client, all: client.pause(target, **all),
            None if keep else lambda client, moved, all: client.resume(_paused(moved), **all))

    async def resume(self, target: types.Target, *, generation: int, **options: Unpack[calls.ResumeOptions]) -> ClusterOutcome:
        # One that waits for memory is no refusal yet.
        waits = bool(options.get("wait_timeout"))
        return await self._move(
            "resume", generation, options,
            (lambda client, all: client.list_processes(target)) if waits else (lambda client, all: client.forecast_resume(target, **all)),
            lambda client, all: client.resume(target, **all),
            None)

    async def handoff(self, out: types.Target, into: types.Target, *, generation: int, keep: bool = False, **options: Unpack[calls.HandoffOptions]) -> ClusterOutcome:
        return await self._move(
            "handoff", generation, options,
            lambda client, all: client.forecast_handoff(out, into, **all),
            lambda client, all: client.handoff(out, into, **all),
            None if keep else _hand_back)

    async def _move(
        self, what: str, generation: int, options: Mapping[str, Any],
        look: Callable[..., Awaitable[Any]], move: Callable[..., Awaitable[list[types.TransitionResult]]],
        take_back: Callable[..., Awaitable[Any]] | None,
    ) -> ClusterOutcome:
        if generation <= 0:
            raise errors.InvalidArgument("a generation is a whole number from 1 on")
        begin = time.monotonic()
        request_id = f"{what}-{generation}"
        shared = {**options, "allow_empty": True, "epoch": generation}

        def outcome(nodes: Iterable[NodeOutcome]) -> ClusterOutcome:
            return ClusterOutcome(generation, time.monotonic() - begin, tuple(nodes))

        looked = await self.ask(lambda client: look(client, {**shared, "timeout": LOOK}))
        refused = [NodeOutcome(node, request_id, error=_refusal(answer)) for node, answer in looked.items()]
        if any(node.error for node in refused):
            raise ClusterError("look", outcome(refused))
        if not options.get("allow_empty") and not any(_concerns(answer) for answer in looked.values()):
            raise errors.NotFound("no node has such a process", "NO_PROCESS")

        moved = list(await asyncio.gather(*(self._one(node, move, {**shared, "request_id": request_id}) for node in self._clients)))
        if not any(node.error for node in moved):
            return outcome(moved)
        if take_back is not None:
            again = {k: v for k, v in shared.items() if k in ("allow_empty", "epoch")}
            moved = list(await asyncio.gather(*(self._undo(node, take_back, again) for node in moved)))
        raise ClusterError("move", outcome(moved))

    async def _one(self, node: str, move: Callable[..., Awaitable[list[types.TransitionResult]]], options: Mapping[str, Any]) -> NodeOutcome:
        begin, results, failure = time.monotonic(), [], None
        try:
            results = await move(self._clients[node], options)
        except errors.Error as error:
            failure = error
        unknown = failure is not None and failure.reason in ("STILL_RUNNING", "NO_ANSWER", "UNREACHABLE")
        return NodeOutcome(node, options["request_id"], tuple(results), failure, time.monotonic() - begin, unknown)

    async def _undo(self, node: NodeOutcome, take_back: Callable[..., Awaitable[Any]], options: Mapping[str, Any]) -> NodeOutcome:
        """Of a node that has failed its daemon has taken back all; of one that nobody knows of nobody can."""
        moved = [result for result in node.results if not result.already]
        if node.error is not None or not moved:
            return node
        try:
            await take_back(self._clients[node.node], moved, options)
        except errors.Error as error:
            return dataclasses.replace(node, take_back_error=error)
        return dataclasses.replace(node, taken_back=True)


def _paused(results: Iterable[types.TransitionResult]) -> types.Selector:
    return types.Selector(pids=tuple(result.pid for result in results if result.state is types.ProcessState.PAUSED))


def _running(results: Iterable[types.TransitionResult]) -> types.Selector:
    return types.Selector(pids=tuple(result.pid for result in results if result.state is not types.ProcessState.PAUSED))


def _hand_back(client: AsyncClient, moved: list[types.TransitionResult], options: Mapping[str, Any]) -> Awaitable[Any]:
    """Where one side was as it should be already, only the other one has moved."""
    came, left = _running(moved), _paused(moved)
    if not left.pids:
        return client.pause(came, **options)
    return client.handoff(came, left, **options) if came.pids else client.resume(left, **options)


def _refusal(answer: Any) -> errors.Error | None:
    if isinstance(answer, errors.Error):
        return answer
    refusals = getattr(answer, "refusals", ())
    return errors.of(refusals[0]) if refusals else None


def _concerns(answer: Any) -> bool:
    """Whether a forecast, or a list, has a process in it."""
    return bool(getattr(answer, "processes", answer))
