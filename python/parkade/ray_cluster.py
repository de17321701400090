"""Parkade on the nodes of a Ray cluster: an actor on each that fronts the daemon there, and Cluster, which asks all of them.

Imports Ray when the first actor is made. What a call on many nodes means, its two phases and its generation, is cluster.py's.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import TYPE_CHECKING, Any, Coroutine, Iterable, TypeVar

from . import calls, errors, types
from .client import Client
from .cluster import ClusterClient, ClusterOutcome

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")

NAMESPACE = "parkade"
AT_ONCE = 16  # calls of one actor: a list must not wait for a pause
GRACE = 60.0  # seconds for Ray's own way beyond what the daemon may take: an actor may have to be started first


class NodeParkade:
    """The daemon of the node that this actor is on. `target` is a Selector, a pid, or a group by its name; options, answers and
    exceptions are those of Client. An ordinary class: node_actor() makes the actor."""

    def __init__(self, runtime_dir: str | None = None):
        self._client = Client(runtime_dir)

    def pause(self, target: types.Target, **options: Unpack[calls.PauseOptions]) -> list[types.TransitionResult]:
        return self._client.pause(target, **options)

    def resume(self, target: types.Target, **options: Unpack[calls.ResumeOptions]) -> list[types.TransitionResult]:
        return self._client.resume(target, **options)

    def handoff(self, out: types.Target, into: types.Target, **options: Unpack[calls.HandoffOptions]) -> list[types.TransitionResult]:
        return self._client.handoff(out, into, **options)

    def list(self, target: types.Target | None = None, **options: Unpack[calls.CallOptions]) -> list[types.Process]:
        return self._client.list_processes(target, **options)

    def define_group(self, group: types.Group) -> types.Group:
        return self._client.define_group(group)

    def forecast(self, what: str, *targets: types.Target, **options: Any) -> types.Forecast:
        """What "pause", "resume" or "handoff" would do now; moves nothing."""
        foretold = {"pause": self._client.forecast_pause, "resume": self._client.forecast_resume, "handoff": self._client.forecast_handoff}
        ask: Any = foretold[what]
        return ask(*targets, **options)


def node_actor(node_id: str, *, runtime_dir: str | None = None) -> Any:
    """The handle of the one NodeParkade of a node, by the node's id, made where there is none yet. It is detached: it outlives
    the driver, until Cluster.stop(). It holds no CPU and no GPU, and runs on that node or not at all. It is started again when it
    ends, but a call that was under way is not made again: nobody knows how far it was."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return ray.remote(NodeParkade).options(
        name=f"parkade-{node_id}", namespace=NAMESPACE, lifetime="detached", get_if_exists=True,
        num_cpus=0, max_concurrency=AT_ONCE, max_restarts=-1, max_task_retries=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node_id, soft=False),
    ).remote(runtime_dir)  # fmt: skip


def gpu_nodes() -> list[str]:
    """The ids of the nodes that live and have GPUs."""
    import ray

    return [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]


class Cluster:
    """Pauses, resumes and handoffs on the nodes of a Ray cluster, each with an outcome for every node.

    As ClusterClient: first every node is asked what would come of it, then all move, and what fails on one is taken back on the
    others; `generation` rises from call to call. ClusterError has the outcome of each node. Calls block; a coroutine makes
    them by asyncio.to_thread().
    """

    def __init__(self, node_ids: Iterable[str] | None = None, *, runtime_dir: str | None = None):
        """`node_ids`: those of gpu_nodes(), unless said otherwise. `runtime_dir` counts for actors that are new."""
        ids = list(gpu_nodes() if node_ids is None else node_ids)
        self._actors = {node_id: node_actor(node_id, runtime_dir=runtime_dir) for node_id in ids}
        clients: Any = {node_id: _NodeClient(node_id, actor) for node_id, actor in self._actors.items()}
        self._cluster = ClusterClient(clients)

    @property
    def nodes(self) -> list[str]:
        return self._cluster.nodes

    def pause(self, target: types.Target, *, generation: int, keep: bool = False, **options: Unpack[calls.PauseOptions]) -> ClusterOutcome:
        return _run(self._cluster.pause(target, generation=generation, keep=keep, **options))

    def resume(self, target: types.Target, *, generation: int, **options: Unpack[calls.ResumeOptions]) -> ClusterOutcome:
        return _run(self._cluster.resume(target, generation=generation, **options))

    def handoff(
        self, out: types.Target, into: types.Target, *, generation: int, keep: bool = False, **options: Unpack[calls.HandoffOptions]
    ) -> ClusterOutcome:
        return _run(self._cluster.handoff(out, into, generation=generation, keep=keep, **options))

    def list(self, target: types.Target | None = None) -> dict[str, list[types.Process] | errors.Error]:
        """The processes of each node, or why there is no answer."""
        return _run(self._cluster.list_processes(target))

    def define_group(self, group: types.Group) -> dict[str, types.Group | errors.Error]:
        """On every node, for the user that the actors run as."""
        return _run(self._cluster.ask(lambda client: client.define_group(group)))

    def stop(self) -> None:
        """Ends the actors. What they have begun goes on in the daemons."""
        import ray

        for actor in self._actors.values():
            ray.kill(actor)


class _NodeClient:
    """What ClusterClient calls of an AsyncClient, by way of an actor."""

    def __init__(self, node_id: str, actor: Any):
        self._node_id, self._actor = node_id, actor

    async def _ask(self, usual: float, method: Any, *arguments: Any, **options: Any) -> Any:
        patience = options.get("timeout", usual) + GRACE
        try:
            return await asyncio.wait_for(asyncio.wrap_future(method.remote(*arguments, **options).future()), patience)
        except (asyncio.TimeoutError, concurrent.futures.TimeoutError):
            raise errors.DeadlineExceeded(f"node {self._node_id} has not answered within {patience:g} s", "NO_ANSWER") from None
        except Exception as error:
            raise _meant(error, self._node_id) from None

    async def close(self) -> None:
        pass

    async def list_processes(self, target: types.Target | None = None, **options: Any) -> Any:
        return await self._ask(calls.QUESTION, self._actor.list, target, **options)

    async def define_group(self, group: types.Group) -> Any:
        return await self._ask(calls.QUESTION, self._actor.define_group, group)

    async def pause(self, target: types.Target, **options: Any) -> Any:
        return await self._ask(calls.TRANSITION, self._actor.pause, target, **options)

    async def resume(self, target: types.Target, **options: Any) -> Any:
        return await self._ask(calls.TRANSITION, self._actor.resume, target, **options)

    async def handoff(self, out: types.Target, into: types.Target, **options: Any) -> Any:
        return await self._ask(calls.TRANSITION, self._actor.handoff, out, into, **options)

    async def forecast_pause(self, target: types.Target, **options: Any) -> Any:
        return await self._ask(calls.QUESTION, self._actor.forecast, "pause", target, **options)

    async def forecast_resume(self, target: types.Target, **options: Any) -> Any:
        return await self._ask(calls.QUESTION, self._actor.forecast, "resume", target, **options)

    async def forecast_handoff(self, out: types.Target, into: types.Target, **options: Any) -> Any:
        return await self._ask(calls.QUESTION, self._actor.forecast, "handoff", out, into, **options)


def _meant(error: Exception, node_id: str) -> errors.Error:
    """What the actor has raised, out of what Ray makes of it; else the actor or its node is gone, and nobody knows how far it was."""
    for found in (getattr(error, "cause", None), error):
        if isinstance(found, errors.Error):
            return found
    return errors.Unavailable(f"the actor of node {node_id}: {type(error).__name__}: {error}", "NO_ANSWER")


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """On a thread of its own, since the caller's may have an event loop that runs."""
    with concurrent.futures.ThreadPoolExecutor(1) as own:
        return own.submit(asyncio.run, coroutine).result()
