"""Unmodified CUDA runtime programs, with the runtime linked in and as a shared library: each allocation is
counted once, and kernels, graphs and bytes are right across pauses to host and disk."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

FOLDERS = ["/usr/local/cuda/lib64"]  # where a toolkit keeps libcudart.so


def run(node):
    if not harness.ON_CARD:
        raise harness.Skip("the CUDA runtime needs a card")
    node.start_daemon()
    ran = 0
    for kind in ("static", "shared"):
        program = harness.BUILD / f"bin/runtime_stepper_{kind}"
        if not program.exists():
            continue
        env = {"LD_LIBRARY_PATH": ":".join(FOLDERS)} if kind == "shared" else {}
        app = node.start(program, env=env).ready()
        harness.wait_for("the daemon lists it", lambda: node.state(app.pid) == "running")
        total = sum(a["bytes"] for a in node.json("show", app.pid)["allocations"])
        harness.equal(total, app.bytes + 8, f"bytes counted of the {kind} runtime's program")
        for policy in ("host", "disk", "host"):
            app.step()
            app.step()
            before = node.gpu_free()
            node.expect(0, "pause", app.pid, "--policy", policy)
            harness.holds(node.gpu_free() - before >= app.bytes, "the driver shows the memory free")
            node.expect(0, "resume", app.pid)
        app.step()
        app.finish()
        ran += 1
    if ran == 0:
        raise harness.Skip(f"no runtime programs in {harness.BUILD}/bin: the build found no nvcc")


harness.scenario(run)
