"""torchrun starts two ranks under one `parkade run`: both have the library and the labels that they should, are paused and
resumed together while they work, end with every byte right, and torchrun sees them end well. Skipped without PyTorch."""

import importlib.util
import sys

import harness

STEPS = 1000
START = 300.0  # importing PyTorch from a cold disk
PAUSES = 3


def launch(node, labels, options):
    """Spelled as PyTorch 1.13 still wants it; what the ranks say goes to files and from there to the launcher's output."""
    stepper = [harness.BUILD / "bin/stepper", "--buffers", 2, "--bytes", "1M", "--steps", STEPS, "--step-ms", 5]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--no_python", "-r", "1", "-t", "1", "--nproc_per_node", 2]
    rendezvous = ["--rdzv_backend", "c10d", "--rdzv_endpoint", "127.0.0.1:0"]
    app = node.start(harness.BUILD / "bin/parkade", "run", *labels, "--", *launcher, *rendezvous, *options, *stepper, park=False)
    harness.wait_for("both ranks are there", lambda: len(node.processes()) == 2, START)
    return app


def ranks(node, app, job, role):
    """Their pids; the launcher's own is not among them."""
    found = sorted(node.processes(), key=lambda process: process["rank"])
    harness.equal([(p["job"], p["role"], p["rank"]) for p in found], [(job, role, 0), (job, role, 1)], "labels of the ranks")
    pids = [process["pid"] for process in found]
    harness.holds(app.pid not in pids, "the launcher has no GPU memory and is not listed")
    return pids


def ends_well(app):
    right = 0
    while right < 2:
        right += app.line().endswith(f"done after {STEPS} steps, every byte right")
    harness.equal(app.process.wait(harness.PATIENCE), 0, "torchrun's exit code")


def run(node):
    if importlib.util.find_spec("torch") is None:
        raise harness.Skip(f"{sys.executable} has no PyTorch")
    node.start_daemon()
    app = launch(node, ["--job", "rl", "--role", "actor"], [])
    pids = ranks(node, app, "rl", "actor")
    for _ in range(PAUSES):
        node.expect(0, "pause", "--job", "rl", "--role", "actor")
        harness.equal([node.state(pid) for pid in pids], ["paused"] * 2, "states in a pause")
        node.expect(0, "resume", "--job", "rl")
    ends_well(app)

    harness.wait_for("the ranks are gone", lambda: not node.processes())
    app = launch(node, [], ["--rdzv_id", "run7", "--role", "learner"])
    ranks(node, app, "run7", "learner")
    ends_well(app)


harness.scenario(run)
