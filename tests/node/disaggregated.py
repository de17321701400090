"""The orchestrator of the disaggregated example lends a parked trainer's memory to a program without Parkade, which does not fit
beside it; both find every byte right, and the engine works on. Sides that learn are in tests/gpu/torch_disaggregated.py."""

import contextlib
import importlib
import os
import sys

import harness
import python_package

PROGRAM = harness.TREE / "tests/apps/turning.py"
EACH = 130 << 20
STEPS, EVERY = 6, 2


def command(role):
    return [sys.executable, str(PROGRAM), role]


class Loan:
    """Looks, while a guest is there, at what the daemon says of trainer and GPU."""

    def __init__(self, node, client, lend):
        self._node, self._client, self._lend, self.seen = node, client, lend, []

    @contextlib.contextmanager
    def __call__(self):
        with self._lend():
            gpu = self._client.get_node().gpus[0]
            harness.equal([(r.label, r.bytes) for r in gpu.reservations], [("guest", EACH)], "what is reserved")
            states = {process["role"]: process["state"] for process in self._node.processes()}
            self.seen.append((states, gpu.free_bytes))
            yield


def run(node):
    parkade = python_package.load()
    sys.path.insert(0, str(python_package.examples() / "colocated"))
    disaggregated, moves = importlib.import_module("disaggregated"), importlib.import_module("moves")
    os.environ.update(PYTHONPATH=str(harness.BUILD / "python"), PARKADE_RUNTIME_DIR=str(node.runtime))
    options = disaggregated.arguments(["--steps", str(STEPS), "--every", str(EVERY)])
    node.start_daemon()
    with parkade.Client(str(node.runtime)) as client:
        loan = Loan(node, client, lambda: disaggregated.guest(client, command("guest"), {"bytes": EACH}))
        turns = moves.Move(client, "lending", disaggregated.TAGS)
        with contextlib.ExitStack() as running:
            sides = [running.enter_context(moves.Side(role, command(role), "lending")) for role in disaggregated.TAGS]
            disaggregated.loop(*sides, turns, loan, {"bytes": EACH}, options)
        harness.equal(len(loan.seen), STEPS // EVERY, "guests")
        for states, free in loan.seen:
            harness.equal(states, {"actor": "paused", "rollout": "running"}, "states beside a guest")
            if not harness.ON_CARD:
                harness.holds(free < EACH, f"{free} bytes were free: the trainer had room beside the guest")
        harness.wait_for("nothing is reserved any more", lambda: not client.get_node().gpus[0].reservations)


harness.scenario(run, gpu_bytes="300M")
