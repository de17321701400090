"""Two PyTorch processes that share tensors by torch.multiprocessing are paused together and apart: together
all leaves HBM and comes back shared; the exporter alone keeps what the other one maps."""

import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("share_torch.py")
START = 300.0  # importing PyTorch from a cold disk
SHARED = (160 << 20) * 4


def run(node):
    if not harness.ON_CARD:
        raise harness.Skip("PyTorch needs a card")
    if importlib.util.find_spec("torch") is None:
        raise harness.Skip(f"{sys.executable} has no PyTorch")
    node.start_daemon()
    app = node.start(sys.executable, PROGRAM)
    child = int(app.line(START).split()[1])
    steps = 0

    def step():
        nonlocal steps
        app.ask_step()
        harness.equal(app.line(), f"step {steps} right", "the step of both processes")
        steps += 1

    step()
    for policy in ("host", "disk", "host"):
        free = node.gpu_free()
        results = node.json("pause", app.pid, child, "--policy", policy)["results"]
        harness.equal([r["kept_bytes"] for r in results], [0, 0], "kept bytes of both")
        harness.holds(node.gpu_free() - free >= SHARED, f"{node.gpu_free() - free} bytes came free")
        node.expect(0, "resume", app.pid, child)
        step()
    kept = node.json("pause", app.pid)["results"][0]["kept_bytes"]
    harness.holds(kept >= SHARED, f"the exporter alone kept {kept} bytes")
    node.expect(0, "resume", app.pid)
    step()
    app.process.stdin.close()
    harness.equal(app.line(), "done", "the last line")
    harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code")


harness.scenario(run)
