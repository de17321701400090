"""A Triton kernel for door_torch.py; in a file of its own, since Triton reads its source. ImportError without Triton."""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def scale_kernel(source, target, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(target + at, tl.load(source + at, mask=inside) * 3 + 1, mask=inside)


def scale(held):
    target = torch.empty_like(held)
    count = held.numel()
    scale_kernel[(triton.cdiv(count, BLOCK),)](held, target, count, BLOCK=BLOCK)
    return target
