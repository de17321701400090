"""What a PyTorch process may do for its own pauses. Importing this imports torch."""

from __future__ import annotations

import torch

from .hooks import Hook, before_pause


def empty_cache_before_pause(*, timeout: float = 5.0) -> Hook:
    """Has PyTorch's caches give back unused GPU memory before each pause, so that it is not moved. After the resume
    PyTorch allocates anew what it needs; a pause works without this too."""

    def empty() -> None:
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    return before_pause(empty, name="torch.empty_cache", timeout=timeout)
