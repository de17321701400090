"""The colocated example with a critic on a card: PPO with actor, critic and engine, no two of which have room beside each
other, gives the same losses of both learners, bit for bit, as where all stay in a fraction of the card; rewards rise, and no more
GPU memory is in use than the largest side and the transfer buffer.

--card-gib N leaves so much of the card to the three, 0 all of it; two of them must find room in host memory."""

import loops

harness = loops.harness


def run(node):
    options = loops.parser(__doc__, card_gib=36, steps=20).parse_args()
    card = loops.Loops(node, "orchestrate.py", options.card_gib)
    with loops.Peak(node) as peak:
        said = card.run("--critic", "--fraction", options.fraction, "--steps", options.steps)
    loops.check_versions(loops.numbers(said))
    loops.check_rise(loops.numbers(said), options.steps, enough=20)
    loops.check_peak(loops.taken(said), peak, card.room)
    card.check_numbers(said, "--critic", "--steps", options.steps)


harness.scenario(run)
