"""Client: the daemon's calls, blocking. Threads may share one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Mapping, TypeVar

import grpc

from . import calls, errors, messages, types
from .endpoint import CHANNEL_OPTIONS, endpoint_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class Watch:
    """The events of one watch, in a `for`. Ends with close(), at its timeout, or with the daemon."""

    def __init__(self, stream: Any):
        self._stream = stream
        self._closed = False

    def __iter__(self) -> Iterator[types.Event]:
        return self

    def __next__(self) -> types.Event:
        try:
            return calls.WATCH.read(next(self._stream))
        except grpc.RpcError as error:
            # The timeout says how long to watch, its end is no failure.
            if self._closed or error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise StopIteration from None
            raise errors.from_rpc(error) from None

    def close(self) -> None:
        self._closed = True
        self._stream.cancel()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Client:
    """The daemon of this node, by its socket in `runtime_dir` (PARKADE_RUNTIME_DIR, else /run/parkade), or
    one on the network at `address` with `certificate`, `key` and `ca` (PEM files).

    Connects at the first call. Calls fail with a parkade.Error; TypeError and ValueError are for options
    that no daemon would understand.
    """

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
        to = endpoint_of(runtime_dir, address, certificate, key, ca)
        self._channel: Any = (
            grpc.secure_channel(to.target, to.credentials, CHANNEL_OPTIONS)
            if to.credentials
            else grpc.insecure_channel(to.target, CHANNEL_OPTIONS)
        )

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, call: calls.Call[T], values: Mapping[str, Any]) -> T:
        request, timeout = calls.prepare(call, values, self._timeout)
        path, kind, parse = messages.method(call.name)
        send = self._channel.unary_unary(path, kind.SerializeToString, parse)  # type: ignore[attr-defined]
        try:
            return call.read(send(request, timeout=timeout))
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None

    def list_processes(self, target: types.Target | None = None, **options: Unpack[calls.CallOptions]) -> list[types.Process]:
        return self._call(calls.LIST_PROCESSES, calls.with_selector(target, options))

    def get_process(self, pid: int, **options: Unpack[calls.CallOptions]) -> types.ProcessDetails:
        return self._call(calls.GET_PROCESS, {"pid": pid, **options})

    def get_node(self, **options: Unpack[calls.CallOptions]) -> types.Node:
        return self._call(calls.GET_NODE, options)

    def pause(self, target: types.Target, **options: Unpack[calls.PauseOptions]) -> list[types.TransitionResult]:
        return self._call(calls.PAUSE, calls.with_selector(target, options))

    def resume(self, target: types.Target, **options: Unpack[calls.ResumeOptions]) -> list[types.TransitionResult]:
        return self._call(calls.RESUME, calls.with_selector(target, options))

    def handoff(self, out: types.Target, into: types.Target, **options: Unpack[calls.HandoffOptions]) -> list[types.TransitionResult]:
        """Moves the memory of `out` out of the GPU while that of `into` comes in."""
        return self._call(calls.HANDOFF, calls.handoff(out, into, options))

    def forecast_pause(self, target: types.Target, **options: Unpack[calls.PauseOptions]) -> types.Forecast:
        """What pause() with the same options would do now; moves nothing."""
        return self._call(calls.FORECAST_PAUSE, {**calls.with_selector(target, options), "dry_run": True})

    def forecast_resume(self, target: types.Target, **options: Unpack[calls.ResumeOptions]) -> types.Forecast:
        return self._call(calls.FORECAST_RESUME, {**calls.with_selector(target, options), "dry_run": True})

    def forecast_handoff(self, out: types.Target, into: types.Target, **options: Unpack[calls.HandoffOptions]) -> types.Forecast:
        return self._call(calls.FORECAST_HANDOFF, {**calls.handoff(out, into, options), "dry_run": True})

    def wait_free(self, gpu_uuid: str, bytes: int, **options: Unpack[calls.WaitOptions]) -> types.FreeMemory:
        """Until so much of the GPU is free beside what resumes have booked; ResourceExhausted after wait_timeout."""
        return self._call(calls.WAIT_FREE, {"gpu_uuid": gpu_uuid, "bytes": bytes, **options})

    def reserve(self, gpu_uuid: str, bytes: int, **options: Unpack[calls.ReserveOptions]) -> types.Reservation:
        """Keeps free memory of a GPU from resumes, until it is released, its ttl is over or its process has ended."""
        return self._call(calls.RESERVE, {"gpu_uuid": gpu_uuid, "bytes": bytes, **options})

    def release(self, id: str, **options: Unpack[calls.CallOptions]) -> None:
        self._call(calls.RELEASE, {"id": id, **options})

    def set_budget(self, **options: Unpack[calls.BudgetOptions]) -> types.Budget:
        """What backups may take, of the node or of a job, from the next pause on."""
        return self._call(calls.SET_BUDGET, options)

    def verify(self, target: types.Target, **options: Unpack[calls.BackupOptions]) -> list[types.TransitionResult]:
        """Reads the backups of paused processes. DataLoss when a block is wrong; the results of its
        `details["operation"]` have all of them."""
        return self._call(calls.VERIFY, calls.with_selector(target, options))

    def prefetch(self, target: types.Target, **options: Unpack[calls.PrefetchOptions]) -> list[types.TransitionResult]:
        """Brings the backups of paused processes from disk into host memory, as far as that has room."""
        return self._call(calls.PREFETCH, calls.with_selector(target, options))

    def get_operation(self, id: str = "", *, request_id: str = "", **options: Unpack[calls.CallOptions]) -> types.Operation:
        """By its id, or this caller's last one with a request id."""
        return self._call(calls.GET_OPERATION, calls.named(id, request_id, options))

    def wait_operation(self, id: str = "", *, request_id: str = "", **options: Unpack[calls.CallOptions]) -> types.Operation:
        """When it has ended, or as it is just before the timeout. Its failure is in the answer, not raised."""
        return self._call(calls.WAIT_OPERATION, calls.named(id, request_id, options))

    def cancel_operation(self, id: str = "", *, request_id: str = "", **options: Unpack[calls.CallOptions]) -> types.Operation:
        """Asks it to end early, then as wait_operation."""
        return self._call(calls.CANCEL_OPERATION, calls.named(id, request_id, options))

    def list_operations(self, ended: bool = False, **options: Unpack[calls.CallOptions]) -> list[types.Operation]:
        return self._call(calls.LIST_OPERATIONS, {"ended": ended, **options})

    def define_group(self, group: types.Group, **options: Unpack[calls.CallOptions]) -> types.Group:
        return self._call(calls.DEFINE_GROUP, {"group": group, **options})

    def remove_group(self, name: str, **options: Unpack[calls.CallOptions]) -> None:
        self._call(calls.REMOVE_GROUP, {"name": name, **options})

    def list_groups(self, **options: Unpack[calls.CallOptions]) -> list[types.Group]:
        return self._call(calls.LIST_GROUPS, options)

    def collect_garbage(self, dry_run: bool = False, **options: Unpack[calls.CallOptions]) -> list[types.ScratchEntry]:
        return self._call(calls.COLLECT_GARBAGE, {"dry_run": dry_run, **options})

    def list_stores(self, target: types.Target | None = None, **options: Unpack[calls.CallOptions]) -> list[types.Store]:
        """The optimizer stores that processes have open."""
        return self._call(calls.LIST_STORES, calls.with_selector(target, options))

    def get_store(self, name: str, target: types.Target | None = None, **options: Unpack[calls.CallOptions]) -> list[types.Store]:
        """Those of one name, one of each process that has it; NotFound where none has."""
        return self._call(calls.GET_STORE, {"name": name, **calls.with_selector(target, options)})

    def mark(self, name: str = "", **options: Unpack[calls.MarkOptions]) -> types.TimelineMark:
        """Says what a job does from now on, for the pictures of `parkade report`: a phase, until its next one or
        kind="end"; or, with kind="point", a moment."""
        return self._call(calls.MARK, {"name": name, **options})

    def watch(
        self, target: types.Target | None = None, timeout: float | None = None, operations: bool = False
    ) -> Watch:
        """Events from now on; first one `present` for each process that matches. No end without a timeout."""
        values = calls.with_selector(target, {"operations": operations})
        request, _ = calls.prepare(calls.WATCH, values, None)
        path, kind, parse = messages.method(calls.WATCH.name)
        send = self._channel.unary_stream(path, kind.SerializeToString, parse)  # type: ignore[attr-defined]
        return Watch(send(request, timeout=timeout))
