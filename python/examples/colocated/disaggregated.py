"""Disaggregated reinforcement learning: the engine is always there, and while it generates, the trainer's GPU is another
program's. On one GPU here, of which the engine takes little.

    disaggregated.py --fraction 0.55          the trainer takes 55 % of what is free, and so does each guest
    disaggregated.py --resident --gib 1       the trainer stays and nobody comes: the same numbers
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orchestrate
import parkade
from moves import Move, Side, Stay

JOB = "disaggregated"
TAGS = {"actor": {"transfer": "keep"}, "rollout": {}}
Lend = Callable[[], contextlib.AbstractContextManager[None]]


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = orchestrate.common_options(__doc__)
    parser.add_argument("--every", type=int, default=4, help="steps from one guest to the next")
    return orchestrate.parsed(parser, words)


@contextlib.contextmanager
def guest(client: parkade.Client, command: Sequence[str], words: dict[str, Any]) -> Iterator[None]:
    """A program without Parkade has the GPU memory that is free now; it has ended when this ends."""
    with Side("guest", command, None) as program:
        # Nobody else's resume gets the memory before the guest has taken it. Ends with the guest.
        client.reserve(client.get_node().gpus[0].uuid, words["bytes"], label="guest", pid=program.pid, wait_timeout=60.0)
        program.ask("build", **words)
        yield
        program.ask("work")
        print(f"guest had {program.end()['bytes']}", flush=True)


def loop(actor: Side, rollout: Side, moves: Stay, lend: Lend, words: dict[str, Any], options: argparse.Namespace) -> None:
    """`words`: for the trainer's `build`. `lend`: a guest."""
    built = actor.ask("build", **words)
    moves.arrived("actor")
    rollout.ask("build", **{**words, "bytes": 0, "batch": options.batch})
    moves.arrived("rollout")
    rollout.ask("update", weights=built["weights"])
    for number in range(options.steps):
        moves.leave("actor")
        with contextlib.nullcontext() if number % options.every else lend():
            batch = rollout.ask("generate")
        moves.enter("actor")
        step = actor.ask("train", **batch)
        rollout.ask("update", weights=step["weights"])
        print(f"step {number} reward {step['reward']:.4f} loss {step['loss']}{moves.last()}", flush=True)
    rollout.end()
    last = actor.end()
    print(f"state {last['state']}\nbytes actor {last['bytes']}\n{moves.summary()}\ndone", flush=True)


def main() -> None:
    options = arguments()
    client = None if options.resident else parkade.Client()
    moves = Move(client, JOB, TAGS) if client else Stay()
    words = orchestrate.size(options, client)
    guest_words = {"device": options.device, "bytes": words["bytes"]}
    command = [sys.executable, str(orchestrate.HERE / "guest.py")]
    lend = (lambda: guest(client, command, guest_words)) if client else contextlib.nullcontext
    with contextlib.ExitStack() as running:
        sides = [running.enter_context(orchestrate.start(role, JOB if client else None)) for role in TAGS]
        loop(*sides, moves, lend, words, options)


if __name__ == "__main__":
    main()
