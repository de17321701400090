"""A vLLM worker whose process has a label and whose weights and KV cache have tags: `vllm serve MODEL --worker-cls
vllm_worker.ParkadeWorker`, with this folder in PYTHONPATH and vLLM's own sleep mode off.

It overrides one method that vLLM does not promise to keep, `_maybe_get_memory_pool_context`."""

from __future__ import annotations

import contextlib

import parkade
from vllm.v1.worker.gpu_worker import Worker


class ParkadeWorker(Worker):
    parkade_role = "rollout"  # the environment's may be that of the trainer, which has started this process

    def init_device(self) -> None:
        # Before the first CUDA context, since the library reads labels once.
        parkade.set_labels(role=self.parkade_role, rank=self.rank)
        super().init_device()

    def _maybe_get_memory_pool_context(self, tag: str) -> contextlib.AbstractContextManager[object]:
        """vLLM gives "weights" and "kv_cache"."""
        return parkade.tag(tag)
