"""The kernel that hashes bytes in HBM says what the processor says of them; and how fast it is."""

import card_program
from card_program import harness


def run(_):
    card_program.passes("gpu_hash_test", "the simulated GPU runs the processor's code", "GB/s", " us")


harness.scenario(run)
