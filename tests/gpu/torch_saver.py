"""PyTorch pauses regions by torch_memory_saver's functions of the library that stands in its place: products and sums are
equal, the GPU's memory is free meanwhile, the copy on the host is whole, and the directory shows no file."""

import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402
from saver_program import LIBRARY  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("saver_torch.py")
START = 300.0  # importing PyTorch from a cold disk
ROUNDS = 5


def rounds(node):
    folder = node.root / "backups"
    folder.mkdir(exist_ok=True)
    app = node.start(sys.executable, PROGRAM, folder, env={"LD_PRELOAD": str(LIBRARY)}, park=False)
    app.until("ready", START)
    for _ in range(ROUNDS):
        app.ask_step()
        harness.equal(app.line(120.0), "round right", "a round")
        harness.equal(list(folder.iterdir()), [], "what the directory shows")
    return app


def run(node):
    if not harness.ON_CARD:
        raise harness.Skip("PyTorch needs a card")
    if importlib.util.find_spec("torch") is None:
        raise harness.Skip(f"{sys.executable} has no PyTorch")
    rounds(node).end()
    node.start_daemon()
    app = rounds(node)
    harness.equal(node.state(app.pid), "running", "state")
    node.expect(0, "pause", app.pid)
    node.expect(0, "resume", app.pid)
    app.ask_step()
    harness.equal(app.line(120.0), "round right", "a round after a pause from outside")
    app.end()


harness.scenario(run)
