"""Colocated reinforcement learning on one GPU: a trainer and an engine, each of which may need more than half of it, in
processes of their own; this one tells both what to do and has Parkade move them out of each other's way.

    orchestrate.py --fraction 0.55            each takes 55 % of what is free, they take turns
    orchestrate.py --critic --fraction 0.55   PPO: a critic is the third that takes so much
    orchestrate.py --resident --gib 1         the same without Parkade, all stay: the same numbers
    orchestrate.py --resident --device cpu    to look at the learning where there is no GPU
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sys
from typing import Any

import parkade
from moves import GIB, Move, Side, Stay

HERE = pathlib.Path(__file__).resolve().parent
JOB = "colocated"
PROGRAMS = {"actor": "trainer.py", "critic": "critic.py", "rollout": "engine.py"}


def common_options(text: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--fraction", type=float, default=0.55, help="of the GPU memory that is free at the start, for each side")
    size.add_argument("--gib", type=float, help="GPU memory for each side")
    parser.add_argument("--resident", action="store_true", help="without Parkade: nobody is ever moved")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    return parser


def parsed(parser: argparse.ArgumentParser, words: list[str] | None) -> argparse.Namespace:
    options = parser.parse_args(words)
    if options.device == "cpu":
        options.gib = options.gib or 0
    if options.resident and options.gib is None:
        parser.error("--resident wants --gib")
    return options


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = common_options(__doc__)
    parser.add_argument("--critic", action="store_true", help="PPO with a critic, in place of REINFORCE")
    parser.add_argument("--cache", default="discard", choices=("discard", "host", "disk"), help="what becomes of the KV cache in a turn")
    return parsed(parser, words)


def tags(options: argparse.Namespace) -> dict[str, dict[str, str]]:
    """The roles, and what becomes of some of their tags in a turn. The trainer's transfer buffer stays where the engine
    sees it."""
    roles = {"actor": {"transfer": "keep"}, "rollout": {"kv_cache": options.cache}}
    return {**roles, "critic": {}} if options.critic else roles


def size(options: argparse.Namespace, client: parkade.Client | None) -> dict[str, Any]:
    """Words for each side's `build`; `client` where there is one."""
    gib = options.gib
    if gib is None:
        gib = client.get_node().gpus[0].free_bytes * options.fraction / GIB
    print(f"each side takes {gib:.1f} GiB and its model, {'by turns' if client else 'all stay'}", flush=True)
    return {"device": options.device, "width": options.width, "layers": options.layers, "bytes": int(gib * GIB)}


def start(role: str, job: str | None) -> Side:
    return Side(role, [sys.executable, str(HERE / PROGRAMS[role])], job)


def trained(sides: dict[str, Side], moves: Stay, batch: dict[str, Any]) -> dict[str, Any]:
    """What the trainer says of its step; it is on the GPU then, alone."""
    if "critic" not in sides:
        moves.hand("rollout", "actor")
        return sides["actor"].ask("train", **batch)
    moves.hand("rollout", "critic")
    judged = sides["critic"].ask("judge", tokens=batch["tokens"])
    moves.hand("critic", "actor")
    step = sides["actor"].ask("train", values=judged["values"], **batch)
    return {**step, "loss": f"{step['loss']} critic {judged['loss']}"}


def loop(sides: dict[str, Side], moves: Stay, words: dict[str, Any], options: argparse.Namespace) -> None:
    """`words`: for each side's `build`."""
    rollout, learners = sides["rollout"], [role for role in sides if role != "rollout"]
    built = {}
    for role in learners:
        built[role] = sides[role].ask("build", **words)
        moves.arrived(role)
        moves.leave(role)
    rollout.ask("build", batch=options.batch, **words)
    moves.arrived("rollout")
    rollout.ask("update", weights=built["actor"]["weights"])
    for number in range(options.steps):
        batch = rollout.ask("generate")
        step = trained(sides, moves, batch)
        moves.leave("actor")
        moves.enter("rollout", ["weights"])
        rollout.ask("update", weights=step["weights"])
        moves.enter("rollout")
        weights = [version for both in batch["versions"] for version in both]
        of = f"weights {min(weights)} to {max(weights)}"
        print(f"step {number} {of} reward {step['reward']:.4f} loss {step['loss']}{moves.last()}", flush=True)
    last = {"rollout": rollout.end()}
    for role in learners:
        moves.enter(role)
        last[role] = sides[role].end()
    print("state", *(last[role]["state"] for role in learners))
    print("bytes", *(f"{role} {last[role]['bytes']}" for role in last), f"transfer {built['actor']['bytes']}")
    print(f"{moves.summary()}\ndone", flush=True)


def main() -> None:
    options = arguments()
    client = None if options.resident else parkade.Client()
    moves = Move(client, JOB, tags(options)) if client else Stay()
    words = size(options, client)
    with contextlib.ExitStack() as running:
        sides = {role: running.enter_context(start(role, JOB if client else None)) for role in tags(options)}
        loop(sides, moves, words, options)


if __name__ == "__main__":
    main()
