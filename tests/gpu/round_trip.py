"""An idle process of 1 GiB is paused to pinned memory and resumed, warm, by the Python client: under 60 ms both together
on a card. Runs on the simulated GPU too, with less, where only the bytes are looked at."""

import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402
import python_package  # noqa: E402

COUNT, EACH = (64, 16 << 20) if harness.ON_CARD else (4, 16 << 20)
ROUNDS, LIMIT_S = 11, 0.060


def run(node):
    parkade = python_package.load()
    node.start_daemon()
    client = parkade.Client(node.runtime)
    app = node.verifier("--buffers", COUNT, "--bytes", EACH, env={"PARKADE_ELISION": "off"})
    seconds = []
    for _ in range(ROUNDS + 1):
        begin = time.monotonic()
        (paused,) = client.pause(app.pid)
        (resumed,) = client.resume(app.pid)
        seconds.append(time.monotonic() - begin)
        harness.holds(min(paused.host_bytes, resumed.host_bytes) >= COUNT * EACH, f"bytes moved: {paused}, {resumed}")
        app.step()
    took = statistics.median(seconds[1:])  # the first pins its memory
    print(f"{COUNT * EACH >> 20} MiB out and in: {took * 1e3:.1f} ms, the first {seconds[0] * 1e3:.1f} ms")
    if harness.ON_CARD:
        harness.holds(took < LIMIT_S, f"out and in took {took * 1e3:.1f} ms")
    app.finish()


harness.scenario(run)
