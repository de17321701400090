"""PyTorch's tensors bear the tags they were made under, and a pause treats each tag by its own policy."""

import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("tag_torch.py")
START = 300.0  # importing PyTorch from a cold disk


def run(node):
    if not harness.ON_CARD:
        raise harness.Skip("PyTorch needs a card")
    if importlib.util.find_spec("torch") is None:
        raise harness.Skip(f"{sys.executable} has no PyTorch")
    node.start_daemon()
    app = node.start(sys.executable, PROGRAM, env={"PYTHONPATH": str(harness.BUILD / "python")})
    _, each = app.line(START).split()
    sums = {}
    for allocation in node.json("show", app.pid)["allocations"]:
        sums[allocation["tag"]] = sums.get(allocation["tag"], 0) + int(allocation["bytes"])
    harness.equal(sorted(sums), ["default", "kv_cache", "weights"], "tags listed")
    for tag, found in sums.items():
        harness.holds(found >= int(each), f"{tag} has {found} bytes, of tensors of {each}")
    print(f"bytes by tag: {sums}; tensors of each: {each}")
    node.expect(0, "pause", app.pid, "--tag-policy", "kv_cache=discard", "--tag-policy", "weights=disk")
    node.expect(0, "resume", app.pid)
    app.ask_step()
    harness.equal(app.line(), "kept True False True", "bytes of weights, kv_cache and the rest")
    app.end()


harness.scenario(run)
