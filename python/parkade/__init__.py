"""Parkade parks the GPU memory of running processes; this is the client of its daemon `parkaded`.

    with parkade.Client() as client:
        client.pause(parkade.Selector(job="rl", role="rollout"), policy="host")
        client.resume(4711, wait_timeout=60)

`AsyncClient` has the same calls for asyncio, `parkade.ray` what a Ray actor needs to be started under
Parkade, and the actors that ask the daemons of a Ray cluster. Sizes are bytes, times are seconds.
"""

from .aio import AsyncClient
from .client import Client
from .cluster import ClusterClient, ClusterError, ClusterOutcome, NodeOutcome
from .errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from .hooks import Hook, after_resume, before_pause
from .labels import environment, set_labels
from .nodes import nodes_of
from .preload import find_library, merge_preload
from .store import Store, StoreError  # types.Store is what the daemon tells of one
from .tags import tag
from .types import (
    Allocation,
    Budget,
    DeepStep,
    Elision,
    Event,
    EventKind,
    Failure,
    Forecast,
    ForeignMemory,
    FreeMemory,
    GateMode,
    GatedAllocations,
    GatedWork,
    Gpu,
    GpuChange,
    GpuDemand,
    GpuUser,
    GpuWait,
    Group,
    Node,
    OnExported,
    Operation,
    OperationKind,
    OperationState,
    Overlap,
    Policy,
    Process,
    ProcessDetails,
    ProcessDevice,
    ProcessForecast,
    ProcessState,
    Progress,
    Reservation,
    ScratchBase,
    ScratchEntry,
    Selector,
    StorePlacement,
    StoreRedundancy,
    StoreSegment,
    StoreState,
    TagForecast,
    Target,
    TimelineMark,
    TimelineMarkKind,
    TransitionResult,
    Waiter,
    WrongBlock,
)

__all__ = [
    "Aborted", "Allocation", "AlreadyExists", "AsyncClient", "Budget", "Cancelled", "Client", "ClusterClient", "ClusterError",
    "ClusterOutcome", "DataLoss",
    "DeadlineExceeded", "DeepStep", "Elision", "Error", "Event", "EventKind", "FailedPrecondition", "Failure", "Forecast",
    "ForeignMemory", "FreeMemory", "GateMode", "GatedAllocations", "GatedWork", "Gpu", "GpuChange",
    "GpuDemand", "GpuUser", "GpuWait", "Group", "Hook", "Internal", "InvalidArgument", "Node", "NodeOutcome", "NotFound", "OnExported",
    "Operation", "OperationKind", "OperationState", "Overlap", "PermissionDenied", "Policy", "Process",
    "ProcessDetails", "ProcessDevice", "ProcessForecast", "ProcessState", "Progress", "Reservation", "ResourceExhausted",
    "ScratchBase", "ScratchEntry", "Selector", "Store", "StoreError", "StorePlacement", "StoreRedundancy", "StoreSegment",
    "StoreState", "TagForecast", "Target", "TimelineMark", "TimelineMarkKind",
    "TransitionResult", "Unauthenticated", "Unavailable", "Waiter", "WrongBlock", "after_resume", "before_pause",
    "environment", "find_library", "merge_preload", "nodes_of", "set_labels", "tag",
]
