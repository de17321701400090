"""The same for the CUDA runtime, linked in and shared: what its calls say at their edges, and its last
error after each, is what it is without the shim."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import edge_differences  # noqa: E402
import harness  # noqa: E402

FOLDERS = ["/usr/local/cuda/lib64"]  # where a toolkit keeps libcudart.so


def run(node):
    if not harness.ON_CARD:
        raise harness.Skip("the CUDA runtime needs a card")
    ran = 0
    for kind in ("static", "shared"):
        program = harness.BUILD / f"bin/runtime_edge_calls_{kind}"
        if not program.exists():
            continue
        folders = {"LD_LIBRARY_PATH": ":".join(FOLDERS)} if kind == "shared" else {}
        bare = edge_differences.Run(program, {**edge_differences.plain(node.env), **folders})
        parked = edge_differences.Run(
            program, {**node.env, **folders}, prefix=[harness.BUILD / "bin/parkade", "run", "--"]
        )
        allowed = edge_differences.read_differences("Differences of the CUDA runtime")
        print(f"{kind}:", edge_differences.report(bare, parked, allowed, least=20))
        ran += 1
    if ran == 0:
        raise harness.Skip(f"no runtime programs in {harness.BUILD}/bin: the build found no nvcc")


harness.scenario(run)
