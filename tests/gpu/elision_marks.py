"""What need not move costs next to nothing: a pause with nothing changed, with 10 % changed, of zeroes, and one that
discards. Prints the figures beside their marks, which bind on an H200; bytes are verified everywhere."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import elision  # noqa: E402
import harness  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30


def show(name, seconds, mark):
    met = "met" if seconds <= mark else "MISSED"
    print(f"{name:44} {seconds * 1e3:9.1f} ms, mark {mark * 1e3:9.1f} ms: {met}")
    return seconds <= mark


def run(node):
    node.start_daemon()
    count, size = (64, 512 * MIB) if harness.ON_CARD else (4, 40 * MIB)
    good = []
    host = elision.unchanged_and_tenth(node, count, size)
    good.append(show("second pause, nothing changed", host["unchanged_seconds"], 0.060))
    good.append(show("second pause, 10 % changed", host["tenth_seconds"], 0.2 * host["full_seconds"]))
    print(f"    full pause {host['full_seconds'] * 1e3:.1f} ms; unchanged, in the shim {host['unchanged_move_seconds'] * 1e3:.1f} ms")
    disk = elision.unchanged_and_tenth(node, count // 4, size, policy="disk", rounds=1)
    print(f"to disk: {disk}")
    print(f"zeroes: {elision.zeroes(node, count // 4, size)}")
    total = count * size
    left = elision.discard(node, count, size)
    good.append(show("discard", left["discard_seconds"], total / GIB * 0.001 + 0.003))
    print(f"    of it in the shim {left['discard_move_seconds'] * 1e3:.1f} ms")
    harness.holds(all(good) or not harness.ON_CARD, "every mark must be met")


harness.scenario(run)
