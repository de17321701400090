"""One rank of a PyTorch training run over several GPUs with DistributedDataParallel and NCCL, which knows
nothing of Parkade. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as for torchrun. Deterministic; prints some
losses as exact hexadecimal floats and at the end a hash of all weights."""

import argparse
import hashlib
import os

import train_torch  # first: it sets what cuBLAS reads when it is loaded
import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

WORDS, WIDTH, LAYERS, HEADS = 2048, 512, 6, 8
BATCH, LENGTH = 8, 128
REPORT_EVERY = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    torch.manual_seed(1)
    # Small buckets: many collectives in each step, beside the backward pass.
    model = DistributedDataParallel(
        train_torch.Model(WORDS, WIDTH, LAYERS, HEADS).cuda(), device_ids=[rank], bucket_cap_mb=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    data = torch.Generator(device="cuda").manual_seed(2 + rank)
    dist.barrier()
    print("ready", flush=True)
    for step in range(options.steps):
        batch = torch.randint(WORDS, (BATCH, LENGTH + 1), device="cuda", generator=data)
        optimizer.zero_grad(set_to_none=True)
        scores = model(batch[:, :-1])
        loss = functional.cross_entropy(scores.flatten(0, 1).float(), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        if step % REPORT_EVERY == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            print(f"step {step} loss {mean.item().hex()}", flush=True)
    digest = hashlib.sha256()
    for name, value in model.module.state_dict().items():
        digest.update(name.encode())
        digest.update(value.float().cpu().numpy().tobytes())
    print(f"state {digest.hexdigest()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
