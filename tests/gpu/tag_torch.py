"""A PyTorch program whose tensors bear tags. For each line of input it says whether the bytes of each kind are what
they were: "kept WEIGHTS KV_CACHE PLAIN"."""

import sys

import parkade
import torch

COUNT = 300
SIZES = (1000, 300_000, 3 << 20)


def main():
    torch.empty(1, device="cuda")
    made = {"weights": [], "kv_cache": [], "": []}
    for i in range(COUNT):  # by turns, so that one allocator's segments would mix them
        size = SIZES[i % len(SIZES)]
        with parkade.tag("weights"):
            made["weights"].append(torch.full((size,), i % 127, dtype=torch.int8, device="cuda"))
            with parkade.tag("kv_cache"):
                made["kv_cache"].append(torch.full((size,), i % 127, dtype=torch.int8, device="cuda"))
        made[""].append(torch.full((size,), i % 127, dtype=torch.int8, device="cuda"))
    # What leaves a tag's pool and comes back is the same tag's again.
    with parkade.tag("weights"):
        made["weights"] = [tensor.clone() for tensor in made["weights"]]
    torch.cuda.synchronize()
    bytes_each = sum(tensor.numel() for tensor in made[""])
    print(f"ready {bytes_each}", flush=True)
    for _ in sys.stdin:
        kept = [all(bool((t == i % 127).all()) for i, t in enumerate(tensors)) for tensors in made.values()]
        print("kept", *kept, flush=True)


main()
