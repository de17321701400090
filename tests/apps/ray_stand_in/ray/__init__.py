"""Stands in for Ray where there is none: as much of its public interface as parkade.ray uses, by Ray's documentation. Every actor is a
process, as in Ray, and arguments, results and exceptions go through pickle; a node is a name and the environment of its actors."""

import concurrent.futures
import itertools
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import threading

from . import exceptions

OPTIONS = {
    "name", "namespace", "lifetime", "get_if_exists", "num_cpus", "max_concurrency", "max_restarts", "max_task_retries", "scheduling_strategy",
}  # fmt: skip
_nodes, _named = {}, {}


def stand_in(nodes):
    """Only here: the cluster, as {node id: environment of its actors}. A node without an environment has no GPU; None: it is dead."""
    _nodes.update(nodes)


def nodes():
    return [{"NodeID": name, "Alive": env is not None, "Resources": {"CPU": 1.0, **({"GPU": 1.0} if env else {})}} for name, env in _nodes.items()]


class ObjectRef:
    def __init__(self, future):
        self._future = future

    def future(self):
        return self._future


def get(ref, timeout=None):
    return ref.future().result(timeout)


class _Method:
    def __init__(self, actor, name):
        self._actor, self._name = actor, name

    def remote(self, *arguments, **named):
        return self._actor._call(self._name, arguments, named)


class _Handle:
    """An actor's process, by a pipe each way; _actor.py is at the other end."""

    def __init__(self, made, arguments, options):
        node = options["scheduling_strategy"]
        if options.get("namespace") is None or node.soft or _nodes.get(node.node_id) is None:
            raise ValueError(f"the actor cannot be scheduled: {options}")
        self._numbers, self._open, self._lock = itertools.count(), {}, threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, pathlib.Path(__file__).with_name("_actor.py"), str(options["max_concurrency"])],
            env={**os.environ, **_nodes[node.node_id], "PYTHONPATH": os.pathsep.join(sys.path)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._send((made, arguments))
        threading.Thread(target=self._read, daemon=True).start()

    def __getattr__(self, name):
        return _Method(self, name)

    def _send(self, what):
        text = pickle.dumps(what)
        self._process.stdin.write(struct.pack("<Q", len(text)) + text)
        self._process.stdin.flush()

    def _call(self, name, arguments, named):
        future = concurrent.futures.Future()
        future.set_running_or_notify_cancel()  # who waits no longer does not end the call
        with self._lock:
            number = next(self._numbers)
            self._open[number] = future
            try:
                self._send((number, name, arguments, named))
            except OSError:
                self._open.pop(number).set_exception(exceptions.RayActorError("The actor died."))
        return ObjectRef(future)

    def _read(self):
        while head := self._process.stdout.read(8):
            number, value, error = pickle.loads(self._process.stdout.read(struct.unpack("<Q", head)[0]))
            with self._lock:
                future = self._open.pop(number)
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(exceptions.RayTaskError(error))
        with self._lock:
            for future in self._open.values():
                future.set_exception(exceptions.RayActorError("The actor died."))
            self._open.clear()


class _ActorClass:
    def __init__(self, made, options):
        if unknown := set(options) - OPTIONS:
            raise ValueError(f"Ray knows no {unknown}")
        self._made, self._options = made, options

    def options(self, **options):
        return _ActorClass(self._made, {**self._options, **options})

    def remote(self, *arguments):
        key = self._options["namespace"], self._options["name"]
        if key not in _named or not self._options.get("get_if_exists"):
            if key in _named:
                raise ValueError(f"The name {key} is already taken.")
            _named[key] = _Handle(self._made, arguments, self._options)
        return _named[key]


def remote(made):
    return _ActorClass(made, {})


def kill(actor):
    actor._process.kill()
    actor._process.wait()
    for key in [key for key, found in _named.items() if found is actor]:
        del _named[key]
