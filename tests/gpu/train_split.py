"""A PyTorch model whose halves are on two GPUs of one process, which knows nothing of Parkade: activations and gradients
go from GPU to GPU, and some threads compute that have chosen no GPU. Deterministic; a step for each line of input, with
its loss as an exact hexadecimal float, and at the end a hash of all weights."""

import hashlib
import os
import sys
import threading

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with it

import torch  # noqa: E402
from torch import nn  # noqa: E402

WIDTH, ROWS = 2048, 256
HALVES = ("cuda:0", "cuda:1")


def half(device):
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(6))).to(device)


def in_thread(work):
    """A thread that starts with GPU 0 current, whatever it works on."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def main():
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    halves = [half(device) for device in HALVES]
    optimizer = torch.optim.Adam([weight for part in halves for weight in part.parameters()], lr=1e-3)
    data = torch.Generator(device=HALVES[0]).manual_seed(2)
    print("ready", flush=True)
    for step, _ in enumerate(sys.stdin):
        x = torch.randn(ROWS, WIDTH, device=HALVES[0], generator=data)
        optimizer.zero_grad(set_to_none=True)
        y = halves[1](halves[0](x).to(HALVES[1])).to(HALVES[0])
        loss = ((y - x.roll(1, 1)) ** 2).mean()
        loss.backward()
        optimizer.step()
        norm = in_thread(lambda: sum(float(weight.square().sum()) for weight in halves[1].parameters()))
        print(f"step {step} {loss.item().hex()} {norm.hex()}", flush=True)
    digest = hashlib.sha256()
    for part in halves:
        for weight in part.parameters():
            digest.update(weight.detach().cpu().numpy().tobytes())
    print(f"state {digest.hexdigest()}", flush=True)


if __name__ == "__main__":
    main()
