"""The orchestrator of the colocated example drives a trainer and an engine that do not fit beside each other, and with a critic
three of which no two do: the weights go from trainer to engine by CUDA IPC while the trainer and the engine's cache are out, and
every byte is right. Sides that learn are in tests/gpu/torch_colocated.py and torch_ppo.py."""

import contextlib
import importlib
import os
import sys

import harness
import python_package

PROGRAM = harness.TREE / "tests/apps/turning.py"
EACH = 180 << 20
VARIANTS = (["--cache", "discard"], ["--cache", "host"], ["--cache", "disk"], ["--critic"])


def run(node):
    parkade = python_package.load()
    sys.path.insert(0, str(python_package.examples() / "colocated"))
    orchestrate, moves = importlib.import_module("orchestrate"), importlib.import_module("moves")
    os.environ.update(PYTHONPATH=str(harness.BUILD / "python"), PARKADE_RUNTIME_DIR=str(node.runtime))
    node.start_daemon()
    with parkade.Client(str(node.runtime)) as client:
        for words in VARIANTS:
            options = orchestrate.arguments(["--steps", "4", *words])
            roles = orchestrate.tags(options)
            with contextlib.ExitStack() as running:
                sides = {role: running.enter_context(moves.Side(role, [sys.executable, str(PROGRAM), role], "turning")) for role in roles}
                orchestrate.loop(sides, moves.Move(client, "turning", roles), {"bytes": EACH}, options)
            harness.wait_for("all are gone", lambda: not node.processes())
            handoff = next(o for o in reversed(client.list_operations(ended=True)) if o.kind == parkade.OperationKind.HANDOFF)
            harness.equal([r.kept_bytes for r in handoff.results], [0, 0], "bytes that a turn has kept for want of the other side")


harness.scenario(run, gpu_bytes="300M")
