"""The disaggregated example on a card: while the engine generates, a program without Parkade has the parked trainer's memory,
computes with it and finds every number right; the trainer's losses and state are, bit for bit, those of a run in which it stays
and nobody comes.

--card-gib N leaves so much of the card to all, 0 all of it; --every N has a guest in each Nth step."""

import loops

harness = loops.harness


def run(node):
    parser = loops.parser(__doc__, card_gib=36, steps=12)
    parser.add_argument("--every", type=int, default=4)
    options = parser.parse_args()
    card = loops.Loops(node, "disaggregated.py", options.card_gib)
    said = card.run("--fraction", options.fraction, "--steps", options.steps, "--every", options.every)
    loops.check_rise(loops.numbers(said), options.steps, enough=50)
    guests = [int(line.split()[-1]) for line in said if line.startswith("guest had")]
    harness.equal(len(guests), -(-options.steps // options.every), "guests")
    trainer = loops.taken(said)["actor"]
    print(f"of {card.room / loops.GIB:.2f} GiB the trainer had {trainer / loops.GIB:.2f}, the guests at least {min(guests) / loops.GIB:.2f}")
    harness.holds(trainer + min(guests) > card.room, "a guest had room beside the trainer")
    card.check_numbers(said, "--steps", options.steps)


harness.scenario(run)
