"""The orchestrator of the colocated example drives a trainer and an engine that do not fit beside each other: the weights go
from one to the other by CUDA IPC while the trainer and the engine's cache are out, and every byte is right. Sides that learn are
in tests/gpu/torch_colocated.py."""

import importlib
import os
import sys

import harness
import python_package

PROGRAM = harness.TREE / "tests/apps/turning.py"
EACH = 180 << 20


def run(node):
    parkade = python_package.load()
    sys.path.insert(0, str(python_package.examples() / "colocated"))
    orchestrate, moves = importlib.import_module("orchestrate"), importlib.import_module("moves")
    os.environ.update(PYTHONPATH=str(harness.BUILD / "python"), PARKADE_RUNTIME_DIR=str(node.runtime))
    options = orchestrate.arguments(["--steps", "4"])
    node.start_daemon()
    with parkade.Client(str(node.runtime)) as client:
        for cache in ("discard", "host", "disk"):
            turns = moves.Move(client, "turning", cache)
            sides = [moves.Side(role, [sys.executable, str(PROGRAM), role], "turning") for role in ("actor", "rollout")]
            try:
                orchestrate.loop(*sides, turns, {"bytes": EACH}, options)
            finally:
                for side in sides:
                    side.kill()
            harness.wait_for("both are gone", lambda: not node.processes())
        handoff = next(o for o in reversed(client.list_operations(ended=True)) if o.kind == parkade.OperationKind.HANDOFF)
        harness.equal([r.kept_bytes for r in handoff.results], [0, 0], "bytes that a turn has kept for want of the other side")


harness.scenario(run, gpu_bytes="300M")
