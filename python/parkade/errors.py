"""Failures as exceptions, one class for each gRPC code, with what google.rpc.ErrorInfo says of them."""

from __future__ import annotations

from typing import Any, Mapping

import grpc

from . import messages, types


class Error(Exception):
    """A call that failed.

    `code` is gRPC's name ("NOT_FOUND"), `reason` the constant that control.proto lists at the call
    ("NO_PROCESS"), `details` what else is known ({"pid": "4711"}), `message` a sentence for people.
    """

    code = "UNKNOWN"

    def __init__(self, message: str, reason: str = "", details: Mapping[str, str] | None = None, code: str = ""):
        super().__init__(f"{message} ({reason})" if reason else message)
        self.message = message
        self.reason = reason
        self.details = dict(details or {})
        self.code = code or type(self).code


class InvalidArgument(Error):
    """The request cannot be met as it is."""

    code = "INVALID_ARGUMENT"


class NotFound(Error):
    """There is no such process, operation or file."""

    code = "NOT_FOUND"


class PermissionDenied(Error):
    """It belongs to another user."""

    code = "PERMISSION_DENIED"


class Unauthenticated(Error):
    """The daemon does not know who calls."""

    code = "UNAUTHENTICATED"


class FailedPrecondition(Error):
    """Not in the state that this needs; nothing has changed."""

    code = "FAILED_PRECONDITION"


class Aborted(Error):
    """Somebody else was meanwhile at it."""

    code = "ABORTED"


class AlreadyExists(Error):
    """The request id came before with another request."""

    code = "ALREADY_EXISTS"


class ResourceExhausted(Error):
    """No room: on the GPU, in host memory, on the disk, or a limit."""

    code = "RESOURCE_EXHAUSTED"


class DeadlineExceeded(Error):
    """No answer in time; the work goes on."""

    code = "DEADLINE_EXCEEDED"


class Cancelled(Error):
    """Somebody has cancelled it."""

    code = "CANCELLED"


class Unavailable(Error):
    """The daemon or a process's library cannot be reached now."""

    code = "UNAVAILABLE"


class DataLoss(Error):
    """A backup is gone or wrong; the process stays paused."""

    code = "DATA_LOSS"


class Internal(Error):
    """The driver failed."""

    code = "INTERNAL"


_BY_CODE = {kind.code: kind for kind in Error.__subclasses__()}

# What gRPC says of itself, where the daemon has said nothing.
_OWN_REASONS = {"UNAVAILABLE": "UNREACHABLE", "DEADLINE_EXCEEDED": "NO_ANSWER"}


def make(code: str, message: str, reason: str = "", details: Mapping[str, str] | None = None) -> Error:
    return _BY_CODE.get(code, Error)(message, reason, details, code)


def of(failure: types.Failure) -> Error:
    """The exception that the call would have raised."""
    names = {status.value[0]: status.name for status in grpc.StatusCode}
    return make(names.get(failure.code, "UNKNOWN"), failure.message, failure.reason, failure.metadata)


def from_rpc(error: Any) -> Error:
    """The exception for a grpc.RpcError or a grpc.aio.AioRpcError."""
    code = error.code().name
    for name, value in error.trailing_metadata() or ():
        if name != "grpc-status-details-bin":
            continue
        status: Any = messages.new("ErrorStatus")
        status.ParseFromString(value)
        for detail in status.details:
            if detail.type_url.endswith("/google.rpc.ErrorInfo"):
                info: Any = messages.new("ErrorInfo")
                info.ParseFromString(detail.value)
                return make(code, status.message, info.reason, info.metadata)
    return make(code, error.details() or "", _OWN_REASONS.get(code, ""))
