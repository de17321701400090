"""Runs a unit test's program with the card's own driver, for block_hash.py and store_kernels.py."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402


def passes(name, without, *shown):
    """All cases of bin/NAME, then its hidden one of speed; prints the lines that have one of `shown`. Skips where there is no
    card, for what `without` says."""
    if not harness.ON_CARD:
        raise harness.Skip(without)
    # Not the simulated driver that a build tree's program knows of.
    env = dict(os.environ, LD_LIBRARY_PATH="/usr/lib/x86_64-linux-gnu:/usr/lib64")
    for words in ([], ["[.speed]"]):
        done = subprocess.run([harness.BUILD / "bin" / name, *words], env=env, capture_output=True, text=True, check=False)
        harness.equal(done.returncode, 0, f"exit code of {name}: {done.stdout[-3000:]}{done.stderr[-1000:]}")
        print("\n".join(line for line in done.stdout.splitlines() if any(part in line for part in ("passed", *shown))))
