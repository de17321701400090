"""A PyTorch program that for each line of input makes tensors of many sizes, drops them and empties PyTorch's cache.
Knows nothing of Parkade."""

import random
import sys

import torch

COUNT = 2000
SIZES = (1, 4096, 300_000, 1 << 20, 3 << 20, 15 << 20, 40 << 20)


def main():
    torch.empty(1, device="cuda")
    torch.cuda.empty_cache()
    print("ready", flush=True)
    choose = random.Random(1)
    for _ in sys.stdin:
        held = []
        for size in choose.choices(SIZES, k=COUNT):
            held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            if len(held) > 200:
                held.pop(choose.randrange(len(held)))
        most = torch.cuda.memory_reserved()
        held.clear()
        torch.cuda.empty_cache()
        print(f"emptied {most} {torch.cuda.memory_reserved()}", flush=True)


main()
