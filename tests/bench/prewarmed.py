"""The suite of first pauses, of programs whose host memory was made ready beside their work (PARKADE_PREWARM)."""

import harness
from bed import ANSWER_S, GIB, MIB, link, payload
from suites import SMALL, what

COUNT, EACH = (4, 16 * MIB) if SMALL else (64, 512 * MIB)
LINK_BYTES = 16 * MIB if SMALL else 4 * GIB


def prewarmed(bench):
    with link(bench.node, LINK_BYTES) as limit:
        for _ in range(bench.rounds):
            with payload(bench.node, COUNT, EACH, env={"PARKADE_PREWARM": str(COUNT * EACH)}) as held:
                harness.wait_for("its host memory is ready", lambda: bench.node.process(held.app.pid)["host_pool_bytes"] >= held.bytes, ANSWER_S)
                bench.add("prewarmed", f"first pause, {what(held)}", limit=limit("out"), ours=held.pause("host"))
                held.resume()
                held.step()
