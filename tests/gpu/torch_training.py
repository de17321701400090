"""A PyTorch training run that is paused and resumed from outside, between steps and in the middle of
them, gives the same losses and the same final state, bit for bit, as one that never was."""

from training import Training, harness


def run(node):
    Training(node).run()


harness.scenario(run)
