"""Where the daemon is: its Unix socket, or a daemon on the network by mutual TLS."""

from __future__ import annotations

import os
import pathlib
import stat
import urllib.parse
from dataclasses import dataclass

import grpc

from . import errors

# A process may have a million allocations.
CHANNEL_OPTIONS = (("grpc.max_receive_message_length", -1),)


@dataclass(frozen=True)
class Endpoint:
    target: str  # as gRPC names it
    credentials: grpc.ChannelCredentials | None  # None: the Unix socket


def endpoint_of(
    runtime_dir: str | None, address: str | None, certificate: str | None, key: str | None, ca: str | None
) -> Endpoint:
    """What is None comes from the variables that the command line knows, then from its defaults.

    InvalidArgument for an address without its three files; FailedPrecondition for somebody else's socket.
    """
    address = address or (None if runtime_dir else os.environ.get("PARKADE_ADDRESS"))
    if not address:
        directory = runtime_dir or os.environ.get("PARKADE_RUNTIME_DIR") or "/run/parkade"
        path = os.path.join(os.path.abspath(directory), "control.sock")
        _check_owner(path)
        return Endpoint("unix:" + urllib.parse.quote(path), None)
    named = (
        ("certificate", certificate or os.environ.get("PARKADE_CERT")),
        ("key", key or os.environ.get("PARKADE_KEY")),
        ("ca", ca or os.environ.get("PARKADE_CA")),
    )
    files = {}
    for name, file in named:
        if not file:
            raise errors.InvalidArgument("an address needs certificate, key and ca")
        try:
            files[name] = pathlib.Path(file).read_bytes()
        except OSError as error:
            raise errors.InvalidArgument(f"cannot read {file}: {error.strerror}") from None
    return Endpoint(address, grpc.ssl_channel_credentials(files["ca"], files["key"], files["certificate"]))


def _check_owner(path: str) -> None:
    """A socket of another user could answer anything, so it is not asked; root may ask any user's."""
    try:
        found = os.lstat(path)
    except OSError:
        return  # the call will say that nobody is there
    if not stat.S_ISSOCK(found.st_mode):
        raise errors.FailedPrecondition(f"{path} is not a socket", "UNSAFE_DIRECTORY")
    if os.geteuid() != 0 and found.st_uid not in (0, os.geteuid()):
        raise errors.FailedPrecondition(f"{path} is the socket of user {found.st_uid}", "UNSAFE_DIRECTORY")
