"""The colocated example on a card: a transformer that learns from samples of an engine with KV cache and CUDA graph, each in
more than half of the GPU by turns, gives the same losses, bit for bit, as where both stay in a fraction of it; rewards rise,
no sample mixes two versions of the weights, and no more GPU memory is in use than the larger side and the transfer buffer.

--card-gib N leaves so much of the card to the two, 0 all of it; what both have out must find room in host memory.
--cache host|disk moves the KV cache too, which is otherwise discarded."""

import loops

harness = loops.harness


def run(node):
    parser = loops.parser(__doc__, card_gib=48, steps=50)
    parser.add_argument("--cache", default="discard")
    options = parser.parse_args()
    card = loops.Loops(node, "orchestrate.py", options.card_gib)
    with loops.Peak(node) as peak:
        said = card.run("--fraction", options.fraction, "--cache", options.cache, "--steps", options.steps)
    loops.check_versions(loops.numbers(said))
    loops.check_rise(loops.numbers(said), options.steps, enough=50)
    loops.check_peak(loops.taken(said), peak, card.room)
    card.check_numbers(said, "--steps", options.steps)


harness.scenario(run)
