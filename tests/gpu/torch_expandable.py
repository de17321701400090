"""The same as torch_training.py with expandable segments, where PyTorch makes and maps its memory itself: equal
bit for bit, and all that the allocator had reserved is free while paused."""

import importlib.metadata
import importlib.util

from training import Training, harness


def run(node):
    name = "PYTORCH_CUDA_ALLOC_CONF"
    if importlib.util.find_spec("torch") is not None:
        version = importlib.metadata.version("torch").split(".")
        if (int(version[0]), int(version[1])) >= (2, 9):
            name = "PYTORCH_ALLOC_CONF"  # the other is deprecated there
    Training(node, ["--expandable"], {name: "expandable_segments:True"}).run()


harness.scenario(run)
