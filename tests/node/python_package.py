"""The Python package as the build or the bundle has it, for the scenarios that import it."""

import importlib
import sys
import threading

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


def examples():
    """The folder of the package's examples, in the tree or the bundle."""
    places = [folder / "python/examples" for folder in (harness.TREE, harness.BUILD)]
    return next(place for place in places if place.is_dir())


def reaches(client):
    """Waits until the client's connection is one to the daemon that runs now: the first call after the one before it
    has ended may still fail."""
    def answers():
        try:
            return client.get_node()
        except load().Unavailable:
            return None
    harness.wait_for("the client reaches the daemon", answers)


def begin(client, call):
    """Makes a call that does not end soon on a thread of its own: the operation that it has become."""
    def answer():
        try:
            call()
        except load().Error:
            pass  # what became of it the operation says
    threading.Thread(target=answer, daemon=True).start()
    (operation,) = harness.wait_for("the operation runs", client.list_operations)
    return operation.id


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
