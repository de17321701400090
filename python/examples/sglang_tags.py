"""A plugin of SGLang that tags weights and KV cache, for a server without --enable-memory-saver. A package that brings it
names it in its pyproject.toml:

    [project.entry-points."sglang.srt.plugins"]
    parkade = "sglang_tags:register"

It stands in for one method of SGLang's that is not promised to stay: the region of the memory saver that is off."""

from __future__ import annotations

import contextlib

import parkade
from sglang.srt.plugins.hook_registry import HookRegistry, HookType

REGION = "sglang.srt.utils.torch_memory_saver_adapter._TorchMemorySaverAdapterNoop.region"


def region(_adapter: object, tag: str, enable_cpu_backup: bool = False) -> contextlib.AbstractContextManager[object]:
    """SGLang gives "weights" and "kv_cache"; whether there is a backup the pause decides, by tag."""
    return parkade.tag(tag)


def register() -> None:
    HookRegistry.register(REGION, region, HookType.REPLACE)
