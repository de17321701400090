"""What torch_speed.py times: for each word of input does that work once and prints its seconds.

  gemm    20 products of bf16 matrices, 8192 x 8192
  stream  20 sums of two fp32 vectors of 256 Mi elements (what bounds it is memory)
  step    5 training steps of the transformer of tests/gpu/train_torch.py, with Adam
"""

import pathlib
import sys
import time

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))
from train_torch import Model  # noqa: E402


def gemm():
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: [torch.mm(a, b, out=out) for _ in range(20)]


def stream():
    a, b = (torch.ones(256 << 20, device="cuda") for _ in range(2))
    out = torch.empty_like(a)
    return lambda: [torch.add(a, b, out=out) for _ in range(20)]


def step():
    model = Model(2048, 1024, 8, heads=16).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)

    def once():
        tokens = torch.randint(2048, (8, 257), device="cuda")
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return lambda: [once() for _ in range(5)]


def main():
    works = {"gemm": gemm(), "stream": stream(), "step": step()}
    for work in works.values():  # loads kernels, fills the allocator's cache
        work()
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        works[line.strip()]()
        torch.cuda.synchronize()
        print(f"took {time.perf_counter() - begin}", flush=True)


if __name__ == "__main__":
    main()
