"""The kernels of stores make the processor's bits on a card; and how fast they are."""

import card_program
from card_program import harness


def run(_):
    card_program.passes("gpu_store_test", "the simulated GPU runs the kernels' host twins", "GB/s")


harness.scenario(run)
