"""Colocated reinforcement learning on one GPU: a trainer and an engine, each of which may need more than half of it, in
processes of their own; this one tells both what to do and has Parkade move them out of each other's way.

    orchestrate.py --fraction 0.55            each takes 55 % of what is free, they take turns
    orchestrate.py --resident --gib 1         the same without Parkade, both stay: the same numbers
    orchestrate.py --resident --device cpu    to look at the learning where there is no GPU
"""

from __future__ import annotations

import argparse
import pathlib
import sys

import parkade
from moves import Move, Side, Stay

HERE = pathlib.Path(__file__).resolve().parent
JOB = "colocated"
GIB = 1 << 30


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--fraction", type=float, default=0.55, help="of the GPU memory that is free at the start, for each side")
    size.add_argument("--gib", type=float, help="GPU memory for each side")
    parser.add_argument("--resident", action="store_true", help="without Parkade: neither side is ever moved")
    parser.add_argument("--cache", default="discard", choices=("discard", "host", "disk"), help="what becomes of the KV cache in a turn")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    options = parser.parse_args(words)
    if options.device == "cpu":
        options.gib = options.gib or 0
    if options.resident and options.gib is None:
        parser.error("--resident wants --gib")
    return options


def loop(actor: Side, rollout: Side, moves: Stay, size: dict[str, object], options: argparse.Namespace) -> None:
    built = actor.ask("build", **size)
    moves.arrived("actor")
    moves.actor_out()
    rollout.ask("build", batch=options.batch, **size)
    moves.arrived("rollout")
    rollout.ask("update", weights=built["weights"])
    for number in range(options.steps):
        batch = rollout.ask("generate")
        moves.to_actor()
        trained = actor.ask("train", **batch)
        moves.actor_out()
        moves.weights_back()
        rollout.ask("update", weights=trained["weights"])
        moves.cache_back()
        weights = [version for both in batch["versions"] for version in both]
        of = f"weights {min(weights)} to {max(weights)}"
        print(f"step {number} {of} reward {trained['reward']:.4f} loss {trained['loss']}{moves.last()}", flush=True)
    at_most = {"rollout": rollout.end()["bytes"]}
    moves.actor_in()
    last = actor.end()
    at_most["actor"] = last["bytes"]
    print(f"state {last['state']}")
    print(f"bytes actor {at_most['actor']} rollout {at_most['rollout']} transfer {built['bytes']}")
    print(f"{moves.summary()}\ndone", flush=True)


def main() -> None:
    options = arguments()
    shape = {"device": options.device, "width": options.width, "layers": options.layers}
    moves, bytes = Stay(), int((options.gib or 0) * GIB)
    if not options.resident:
        client = parkade.Client()
        if options.gib is None:
            bytes = int(client.get_node().gpus[0].free_bytes * options.fraction)
        moves = Move(client, JOB, options.cache)
    print(f"each side takes {bytes / GIB:.1f} GiB and its model, {'both stay' if options.resident else 'by turns'}", flush=True)
    sides = []
    try:
        for role, program in (("actor", "trainer.py"), ("rollout", "engine.py")):
            sides.append(Side(role, [sys.executable, str(HERE / program)], None if options.resident else JOB))
        loop(*sides, moves, {**shape, "bytes": bytes}, options)
    finally:
        for each in sides:
            each.kill()


if __name__ == "__main__":
    main()
