"""PyTorch's DataLoader with workers that are forked and that are spawned: paused while they work and while they begin,
the training gives the same batches and sums as without pauses, and no worker is listed."""

import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("load_torch.py")
START = 300.0  # importing PyTorch from a cold disk, in each spawned worker too


def trained(node, method, pauses):
    app = node.start(sys.executable, PROGRAM, method, park=pauses)
    app.pid = int(app.line(START).split()[-1])
    if pauses:
        harness.wait_for("it is listed", lambda: node.state(app.pid) == "running")
    lines = []
    while not lines or lines[-1] != "done":
        policy = ("host", "disk")[len(lines) % 2]
        if pauses:
            node.expect(0, "pause", app.pid, "--policy", policy)
        app.ask_step()  # while paused it is taken, and waits
        if pauses:
            harness.equal([p["pid"] for p in node.processes()], [app.pid], "listed, with workers at work")
            node.expect(0, "resume", app.pid)
        lines.append(app.line(START))
    harness.equal(app.process.wait(60.0), 0, f"exit code with {method} workers")
    return lines


def run(node):
    if not harness.ON_CARD:
        raise harness.Skip("PyTorch needs a card")
    if importlib.util.find_spec("torch") is None:
        raise harness.Skip(f"{sys.executable} has no PyTorch")
    node.start_daemon()
    for method in ("fork", "spawn"):
        wanted = trained(node, method, pauses=False)
        harness.equal(trained(node, method, pauses=True), wanted, f"batches and sums with {method} workers")
        print(f"{method}: {len(wanted) - 1} steps equal")


harness.scenario(run)
