"""AsyncClient: the calls of Client for asyncio. One event loop each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AsyncIterator, Mapping, TypeVar

import grpc
import grpc.aio

from . import calls, errors, messages, types
from .endpoint import CHANNEL_OPTIONS, endpoint_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class AsyncClient:
    """As Client, which see. A call that is cancelled on this side goes on in the daemon, but
    for one that waits its turn for GPU memory: that leaves the queue."""

    def __init__(
        self,
        runtime_dir: str | None = None,
        *,
        address: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        ca: str | None = None,
        timeout: float | None = None,
    ):
        self._timeout = timeout
        self._endpoint = endpoint_of(runtime_dir, address, certificate, key, ca)
        self._opened: Any = None

    def _channel(self) -> Any:
        # Not before the first call: a channel belongs to the event loop that runs then.
        if self._opened is None:
            to = self._endpoint
            self._opened = (
                grpc.aio.secure_channel(to.target, to.credentials, CHANNEL_OPTIONS)
                if to.credentials
                else grpc.aio.insecure_channel(to.target, CHANNEL_OPTIONS)
            )
        return self._opened

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(self, call: calls.Call[T], values: Mapping[str, Any]) -> T:
        request, timeout = calls.prepare(call, values, self._timeout)
        path, kind, parse = messages.method(call.name)
        send = self._channel().unary_unary(path, kind.SerializeToString, parse)  # type: ignore[attr-defined]
        try:
            return call.read(await send(request, timeout=timeout))
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None

    async def list_processes(self, target: types.Target | None = None, **options: Unpack[calls.CallOptions]) -> list[types.Process]:
        return await self._call(calls.LIST_PROCESSES, calls.with_selector(target, options))

    async def get_process(self, pid: int, **options: Unpack[calls.CallOptions]) -> types.ProcessDetails:
        return await self._call(calls.GET_PROCESS, {"pid": pid, **options})

    async def get_node(self, **options: Unpack[calls.CallOptions]) -> types.Node:
        return await self._call(calls.GET_NODE, options)

    async def pause(self, target: types.Target, **options: Unpack[calls.PauseOptions]) -> list[types.TransitionResult]:
        return await self._call(calls.PAUSE, calls.with_selector(target, options))

    async def resume(self, target: types.Target, **options: Unpack[calls.ResumeOptions]) -> list[types.TransitionResult]:
        return await self._call(calls.RESUME, calls.with_selector(target, options))

    async def handoff(self, out: types.Target, into: types.Target, **options: Unpack[calls.HandoffOptions]) -> list[types.TransitionResult]:
        """Moves the memory of `out` out of the GPU while that of `into` comes in."""
        return await self._call(calls.HANDOFF, calls.handoff(out, into, options))

    async def forecast_pause(self, target: types.Target, **options: Unpack[calls.PauseOptions]) -> types.Forecast:
        """What pause() with the same options would do now; moves nothing."""
        return await self._call(calls.FORECAST_PAUSE, {**calls.with_selector(target, options), "dry_run": True})

    async def forecast_resume(self, target: types.Target, **options: Unpack[calls.ResumeOptions]) -> types.Forecast:
        return await self._call(calls.FORECAST_RESUME, {**calls.with_selector(target, options), "dry_run": True})

    async def forecast_handoff(self, out: types.Target, into: types.Target, **options: Unpack[calls.HandoffOptions]) -> types.Forecast:
        return await self._call(calls.FORECAST_HANDOFF, {**calls.handoff(out, into, options), "dry_run": True})

    async def wait_free(self, gpu_uuid: str, bytes: int, **options: Unpack[calls.WaitOptions]) -> types.FreeMemory:
        """Until so much of the GPU is free beside what resumes have booked; ResourceExhausted after wait_timeout."""
        return await self._call(calls.WAIT_FREE, {"gpu_uuid": gpu_uuid, "bytes": bytes, **options})

    async def reserve(self, gpu_uuid: str, bytes: int, **options: Unpack[calls.ReserveOptions]) -> types.Reservation:
        """Keeps free memory of a GPU from resumes, until it is released, its ttl is over or its process has ended."""
        return await self._call(calls.RESERVE, {"gpu_uuid": gpu_uuid, "bytes": bytes, **options})

    async def release(self, id: str, **options: Unpack[calls.CallOptions]) -> None:
        await self._call(calls.RELEASE, {"id": id, **options})

    async def set_budget(self, **options: Unpack[calls.BudgetOptions]) -> types.Budget:
        """What backups may take, of the node or of a job, from the next pause on."""
        return await self._call(calls.SET_BUDGET, options)

    async def verify(self, target: types.Target, **options: Unpack[calls.BackupOptions]) -> list[types.TransitionResult]:
        """Reads the backups of paused processes. DataLoss when a block is wrong; the results of its
        `details["operation"]` have all of them."""
        return await self._call(calls.VERIFY, calls.with_selector(target, options))

    async def prefetch(self, target: types.Target, **options: Unpack[calls.PrefetchOptions]) -> list[types.TransitionResult]:
        """Brings the backups of paused processes from disk into host memory, as far as that has room."""
        return await self._call(calls.PREFETCH, calls.with_selector(target, options))

    async def get_operation(self, id: str = "", *, request_id: str = "", **options: Unpack[calls.CallOptions]) -> types.Operation:
        """By its id, or this caller's last one with a request id."""
        return await self._call(calls.GET_OPERATION, calls.named(id, request_id, options))

    async def wait_operation(self, id: str = "", *, request_id: str = "", **options: Unpack[calls.CallOptions]) -> types.Operation:
        """When it has ended, or as it is just before the timeout. Its failure is in the answer, not raised."""
        return await self._call(calls.WAIT_OPERATION, calls.named(id, request_id, options))

    async def cancel_operation(self, id: str = "", *, request_id: str = "", **options: Unpack[calls.CallOptions]) -> types.Operation:
        """Asks it to end early, then as wait_operation."""
        return await self._call(calls.CANCEL_OPERATION, calls.named(id, request_id, options))

    async def list_operations(self, ended: bool = False, **options: Unpack[calls.CallOptions]) -> list[types.Operation]:
        return await self._call(calls.LIST_OPERATIONS, {"ended": ended, **options})

    async def define_group(self, group: types.Group, **options: Unpack[calls.CallOptions]) -> types.Group:
        return await self._call(calls.DEFINE_GROUP, {"group": group, **options})

    async def remove_group(self, name: str, **options: Unpack[calls.CallOptions]) -> None:
        await self._call(calls.REMOVE_GROUP, {"name": name, **options})

    async def list_groups(self, **options: Unpack[calls.CallOptions]) -> list[types.Group]:
        return await self._call(calls.LIST_GROUPS, options)

    async def collect_garbage(self, dry_run: bool = False, **options: Unpack[calls.CallOptions]) -> list[types.ScratchEntry]:
        return await self._call(calls.COLLECT_GARBAGE, {"dry_run": dry_run, **options})

    async def list_stores(self, target: types.Target | None = None, **options: Unpack[calls.CallOptions]) -> list[types.Store]:
        """The optimizer stores that processes have open."""
        return await self._call(calls.LIST_STORES, calls.with_selector(target, options))

    async def get_store(self, name: str, target: types.Target | None = None, **options: Unpack[calls.CallOptions]) -> list[types.Store]:
        """Those of one name, one of each process that has it; NotFound where none has."""
        return await self._call(calls.GET_STORE, {"name": name, **calls.with_selector(target, options)})

    async def mark(self, name: str = "", **options: Unpack[calls.MarkOptions]) -> types.TimelineMark:
        """Says what a job does from now on, for the pictures of `parkade report`: a phase, until its next one or
        kind="end"; or, with kind="point", a moment."""
        return await self._call(calls.MARK, {"name": name, **options})

    async def watch(
        self, target: types.Target | None = None, timeout: float | None = None, operations: bool = False
    ) -> AsyncIterator[types.Event]:
        """As Client.watch; leaving the `async for` ends it."""
        values = calls.with_selector(target, {"operations": operations})
        request, _ = calls.prepare(calls.WATCH, values, None)
        path, kind, parse = messages.method(calls.WATCH.name)
        stream = self._channel().unary_stream(path, kind.SerializeToString, parse)(request, timeout=timeout)  # type: ignore[attr-defined]
        try:
            async for event in stream:
                yield calls.WATCH.read(event)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise errors.from_rpc(error) from None
        finally:
            stream.cancel()
