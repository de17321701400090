"""The Python package as the build or the bundle has it, for the scenarios that import it."""

import importlib
import sys

import harness

sys.path.insert(0, str(harness.BUILD / "python"))


def load():
    """The module `parkade`. A card's machine may lack what it stands on."""
    try:
        importlib.import_module("grpc")
    except ImportError as error:
        if harness.ON_CARD:
            raise harness.Skip(f"no grpcio for {sys.executable}") from None
        raise AssertionError(f"{sys.executable}: {error}; scripts/setup installs it") from None
    return importlib.import_module("parkade")


def fails(kind, reason, call, **details):
    """Expects `call()` to raise `kind` for `reason`, with these details; returns the exception."""
    try:
        call()
    except kind as error:
        harness.equal(type(error), kind, "kind of the exception")
        harness.equal(error.reason, reason, f"reason of {error}")
        for name, value in details.items():
            harness.equal(error.details.get(name), str(value), f"{name} of {error}")
        return error
    raise AssertionError(f"must raise {kind.__name__} ({reason})")
