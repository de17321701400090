"""What a copy between a GPU and pinned memory loses while another process gives memory of that GPU back: the driver
clears what it hands from one process to another. Needs nothing of Parkade.

  beside_frees.py [--rounds N] [--rates GB/s ...]    how much is given back in a second"""

import argparse
import ctypes
import pathlib
import statistics
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "node"), str(ROOT / "apps")]
import cuda_driver  # noqa: E402
import harness  # noqa: E402
from bed import link  # noqa: E402

COPY, PIECE = (4 << 30, 512 << 20) if harness.ON_CARD else (64 << 20, 16 << 20)


class Frees:
    """Takes and gives back pieces, so many bytes a second, while it is entered. `bytes` were given back."""

    def __init__(self, cuda, gbps):
        self._cuda, self._period = cuda, PIECE / gbps / 1e9
        self._ended, self.bytes = threading.Event(), 0

    def _work(self):
        cuda_driver.retain(self._cuda, 0)
        due = time.monotonic()
        while not self._ended.is_set():
            address = cuda_driver.allocate(self._cuda, PIECE)
            cuda_driver.check(self._cuda.cuMemsetD8_v2(address, 1, ctypes.c_size_t(4096)), "cuMemsetD8")
            cuda_driver.check(self._cuda.cuMemFree_v2(address), "cuMemFree")
            self.bytes += PIECE
            due += self._period
            time.sleep(max(0, due - time.monotonic()))

    def __enter__(self):
        self._thread = threading.Thread(target=self._work)
        self._begin = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        self.gbps = self.bytes / (time.monotonic() - self._begin) / 1e9


def main(node):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rates", type=float, nargs="+", default=[25, 50, 100])
    options = parser.parse_args()
    cuda = cuda_driver.load()
    with link(node, COPY) as limit:
        for word in ("out", "in", "both"):
            alone = statistics.median(limit(word) for _ in range(options.rounds))
            print(f"{word}: {alone:.1f} GB/s alone", flush=True)
            for rate in options.rates:
                with Frees(cuda, rate) as frees:
                    beside = statistics.median(limit(word) for _ in range(options.rounds))
                print(f"{word}: {beside:.1f} GB/s beside {frees.gbps:.0f} GB/s given back", flush=True)


harness.scenario(main)
