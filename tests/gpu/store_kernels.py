"""The kernels of stores make the processor's bits on a card; and how fast they are."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

PROGRAM = harness.BUILD / "bin/gpu_store_test"


def run(_):
    if not harness.ON_CARD:
        raise harness.Skip("the simulated GPU runs the kernels' host twins")
    # Not the simulated driver that a build tree's program knows of.
    env = dict(os.environ, LD_LIBRARY_PATH="/usr/lib/x86_64-linux-gnu:/usr/lib64")
    for words in ([], ["[.speed]"]):
        done = subprocess.run([PROGRAM, *words], env=env, capture_output=True, text=True, check=False)
        harness.equal(done.returncode, 0, f"exit code of gpu_store_test: {done.stdout[-3000:]}{done.stderr[-1000:]}")
        print("\n".join(line for line in done.stdout.splitlines() if "GB/s" in line or "passed" in line))


harness.scenario(run)
