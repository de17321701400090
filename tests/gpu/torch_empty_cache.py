"""After torch.cuda.empty_cache() one empty slab of each size class stays at most, and nothing of what PyTorch had."""

import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("cache_torch.py")
START = 300.0  # importing PyTorch from a cold disk
# The largest slab of either size class: see shim/heap/README.md.
EMPTY_SLABS = (2 << 20) + (256 << 20)


def run(node):
    if not harness.ON_CARD:
        raise harness.Skip("PyTorch needs a card")
    if importlib.util.find_spec("torch") is None:
        raise harness.Skip(f"{sys.executable} has no PyTorch")
    node.start_daemon()
    app = node.start(sys.executable, PROGRAM)
    harness.equal(app.line(START), "ready", "first line of the program")
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")
    free = node.gpu_free()
    for _ in range(3):
        app.ask_step()
        _, most, reserved = app.line().split()
        harness.equal(reserved, "0", "what PyTorch still holds")
        harness.equal(node.json("show", app.pid)["allocations"], [], "allocations")
        resident = node.process(app.pid)["devices"][0]["resident_bytes"]
        harness.holds(resident <= EMPTY_SLABS, f"{resident} bytes are resident")
        lost = free - node.gpu_free() - resident
        harness.holds(lost <= harness.DRIVER_OWN_BYTES, f"the driver has {lost} bytes less than before")
        print(f"{int(most) >> 20} MiB reserved, then {resident >> 20} MiB in empty slabs")


harness.scenario(run)
