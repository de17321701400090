"""The calls of the API: their options, how long they may take, and what their answers become.

Knows nothing of channels; client.py and aio.py carry the calls out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Generic, Mapping, Sequence, TypedDict, TypeVar

from . import messages, types
from .types import Policy

T = TypeVar("T")

QUESTION = 10.0
TRANSITION = 1800.0


class CallOptions(TypedDict, total=False):
    """`timeout`: seconds to wait for the answer; work that has begun goes on. Default: that of the
    client, else 10 for questions and 1800 for what moves bytes."""

    timeout: float


class TransitionOptions(CallOptions, total=False):
    request_id: str  # repeating it gives the first answer again
    allow_empty: bool  # nobody selected is no error
    epoch: int  # refused when a caller with a higher one has moved one of the processes


class PauseOptions(TransitionOptions, total=False):
    """As the fields of PauseRequest; enumerations also by name ("disk")."""

    policy: Policy | str
    tag_policies: Mapping[str, Policy | str]
    tags: Sequence[str]  # these alone; ["kv_cache,weights"] and ["kv_cache", "weights"] are the same
    gate_mode: types.GateMode | str
    drain_timeout: float
    scratch_base: str
    chunk_bytes: int
    gated_work: types.GatedWork | str
    gated_allocations: types.GatedAllocations | str
    on_exported: types.OnExported | str
    elision: types.Elision | str
    deep: bool  # then the driver's process checkpoint; TransitionResult.deep says what came of it
    write_behind: bool  # bytes for the disk go to host memory first, and from there after the answer
    release_host: bool  # with write_behind: pinned memory goes back to the system then


class ResumeOptions(TransitionOptions, total=False):
    """As the fields of ResumeRequest."""

    release_host: bool
    wait_timeout: float
    tags: Sequence[str]  # these alone come back, in this order; written as in PauseOptions
    gate_mode: types.GateMode | str  # with tags, while something stays out: open, unless said otherwise
    priority: int  # in the queue for GPU memory; higher goes first


class HandoffOptions(TransitionOptions, total=False):
    """Those of PauseOptions that say how the outgoing side leaves, and of ResumeOptions."""

    policy: Policy | str
    tag_policies: Mapping[str, Policy | str]
    tags: Sequence[str]
    drain_timeout: float
    scratch_base: str
    chunk_bytes: int
    gated_work: types.GatedWork | str
    gated_allocations: types.GatedAllocations | str
    on_exported: types.OnExported | str
    write_behind: bool
    release_host: bool
    priority: int
    overlap: types.Overlap | str


class WaitOptions(CallOptions, total=False):
    wait_timeout: float


class ReserveOptions(WaitOptions, total=False):
    """As the fields of ReserveRequest."""

    label: str
    ttl: float
    pid: int
    priority: int
    request_id: str


class BudgetOptions(CallOptions, total=False):
    """0: no budget; what is left out stays."""

    job: str
    host_bytes: int
    disk_bytes: int


class MarkOptions(CallOptions, total=False):
    """Without a job the mark is the whole node's."""

    job: str
    kind: types.TimelineMarkKind | str  # phase, unless said otherwise


class BackupOptions(CallOptions, total=False):
    request_id: str
    allow_empty: bool


class PrefetchOptions(BackupOptions, total=False):
    tags: Sequence[str]  # backups of these alone, in this order; written as in PauseOptions


@dataclass(frozen=True)
class Call(Generic[T]):
    name: str
    wait: float | None
    read: Callable[[Any], T]


def _all(field: str, kind: type[T]) -> Callable[[Any], list[T]]:
    return lambda answer: [messages.read(each, kind) for each in getattr(answer, field)]


def _operation(answer: Any) -> types.Operation:
    return messages.read(answer, types.Operation)


def _forecast(answer: Any) -> types.Forecast:
    return messages.read(answer.forecast, types.Forecast)


LIST_PROCESSES = Call("ListProcesses", QUESTION, _all("processes", types.Process))
GET_PROCESS = Call("GetProcess", QUESTION, lambda answer: messages.read(answer, types.ProcessDetails))
GET_NODE = Call("GetNode", QUESTION, lambda answer: messages.read(answer, types.Node))
PAUSE = Call("Pause", TRANSITION, _all("results", types.TransitionResult))
RESUME = Call("Resume", TRANSITION, _all("results", types.TransitionResult))
HANDOFF = Call("Handoff", TRANSITION, _all("results", types.TransitionResult))
FORECAST_PAUSE = Call("Pause", QUESTION, _forecast)
FORECAST_RESUME = Call("Resume", QUESTION, _forecast)
FORECAST_HANDOFF = Call("Handoff", QUESTION, _forecast)
WAIT_FREE = Call("WaitFree", TRANSITION, lambda answer: messages.read(answer, types.FreeMemory))
RESERVE = Call("Reserve", TRANSITION, lambda answer: messages.read(answer.reservation, types.Reservation))
RELEASE = Call("Release", QUESTION, lambda answer: None)
SET_BUDGET = Call("SetBudget", QUESTION, lambda answer: messages.read(answer.budget, types.Budget))
VERIFY = Call("Verify", TRANSITION, _all("results", types.TransitionResult))
PREFETCH = Call("Prefetch", TRANSITION, _all("results", types.TransitionResult))
GET_OPERATION = Call("GetOperation", QUESTION, _operation)
WAIT_OPERATION = Call("WaitOperation", TRANSITION, _operation)
CANCEL_OPERATION = Call("CancelOperation", TRANSITION, _operation)
LIST_OPERATIONS = Call("ListOperations", QUESTION, _all("operations", types.Operation))
DEFINE_GROUP = Call("DefineGroup", QUESTION, lambda answer: messages.read(answer, types.Group))
REMOVE_GROUP = Call("RemoveGroup", QUESTION, lambda answer: None)
LIST_GROUPS = Call("ListGroups", QUESTION, _all("groups", types.Group))
COLLECT_GARBAGE = Call("CollectGarbage", TRANSITION, _all("entries", types.ScratchEntry))
LIST_STORES = Call("ListStores", QUESTION, _all("stores", types.Store))
GET_STORE = Call("GetStore", QUESTION, _all("stores", types.Store))
MARK = Call("Mark", QUESTION, lambda answer: messages.read(answer.mark, types.TimelineMark))
WATCH = Call("Watch", None, lambda event: messages.read(event, types.Event))


def selector_of(target: types.Target | None) -> types.Selector | None:
    if isinstance(target, int):
        return types.Selector(pids=(target,))
    return types.Selector(group=target) if isinstance(target, str) else target


def with_selector(target: types.Target | None, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"selector": selector_of(target), **options}


_OF_THE_WHOLE = ("request_id", "epoch", "overlap", "timeout")
_OF_BOTH = ("allow_empty",)
_OF_THE_INCOMING = ("release_host", "priority")


def handoff(out: types.Target, into: types.Target, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options where HandoffRequest has them: of the whole, or of one of its parts."""
    outgoing = with_selector(out, {k: v for k, v in options.items() if k not in (*_OF_THE_WHOLE, *_OF_THE_INCOMING)})
    incoming = with_selector(into, {k: v for k, v in options.items() if k in (*_OF_BOTH, *_OF_THE_INCOMING)})
    return {"outgoing": outgoing, "incoming": incoming, **{k: v for k, v in options.items() if k in _OF_THE_WHOLE}}


def named(id: str, request_id: str, options: Mapping[str, Any]) -> dict[str, Any]:
    if bool(id) == bool(request_id):
        raise TypeError("an operation is named by its id or by a request id, one of the two")
    return {"id": id, "request_id": request_id, **options}


def prepare(call: Call[Any], values: Mapping[str, Any], default: float | None) -> tuple[messages.Message, float | None]:
    """The request, and how long its answer may take. TypeError for an option that the call has not."""
    fields = {name: value for name, value in values.items() if name != "timeout"}
    timeout = values.get("timeout")
    request = messages.new(f"{call.name}Request", fields)
    return request, timeout if timeout is not None else default if default is not None else call.wait
