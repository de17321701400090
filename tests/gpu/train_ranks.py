"""One rank of a PyTorch training run over several GPUs and NCCL, by DistributedDataParallel or sharded by FSDP2, whose
weights and optimizer may live in host memory (offload), which knows nothing of Parkade. Deterministic; prints some losses as exact hexadecimal floats, and at its end and after the
steps it is told a hash of this rank's weights and optimizer state. Steps as rank_clock.py says."""

import argparse
import hashlib

import train_torch  # first: it sets what cuBLAS reads when it is loaded
import rank_clock  # isort: skip
import torch
import torch.distributed as dist
from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

WORDS, WIDTH, LAYERS, HEADS = 2048, 512, 6, 8
BATCH, LENGTH = 8, 128
REPORT_EVERY = 10


def spread(kind, model, rank):
    if kind != "ddp":
        policy = CPUOffloadPolicy() if kind == "offload" else OffloadPolicy()
        for block in model.blocks:
            fully_shard(block, offload_policy=policy)
        return fully_shard(model, offload_policy=policy)
    # Small buckets: many collectives in each step, beside the backward pass.
    return DistributedDataParallel(model, device_ids=[rank], bucket_cap_mb=2)


def state_hash(model, optimizer):
    digest = hashlib.sha256()
    tensors = list(model.parameters())
    for state in optimizer.state.values():
        tensors += [value for value in state.values() if torch.is_tensor(value)]
    for tensor in tensors:
        own = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        digest.update(own.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("ddp", "fsdp", "offload"), required=True)
    parser.add_argument("--held", type=int, default=0)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--hash-at", type=lambda text: {int(step) for step in text.split(",")}, default=set())
    options = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    rank = rank_clock.join()
    torch.manual_seed(1)
    # All weights fp32, for FSDP has one type in each group; the products are bf16.
    model = train_torch.Model(WORDS, WIDTH, LAYERS, HEADS).float()
    model = spread(options.kind, model if options.kind == "offload" else model.cuda(), rank)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    data = torch.Generator(device="cuda").manual_seed(2 + rank)
    clock = rank_clock.Clock(rank, options.held, options.limit)
    dist.barrier()
    print("ready", flush=True)
    running = True
    while running:
        batch = torch.randint(WORDS, (BATCH, LENGTH + 1), device="cuda", generator=data)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            scores = model(batch[:, :-1])
        loss = functional.cross_entropy(scores.flatten(0, 1).float(), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        if clock.step % REPORT_EVERY == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            print(f"loss {clock.step} {mean.item().hex()}", flush=True)
        running = clock.goes_on()
        if not running or clock.step in options.hash_at:
            print(f"state {clock.step} {state_hash(model, optimizer)}", flush=True)
    dist.destroy_process_group()
    print("done", flush=True)


if __name__ == "__main__":
    main()
