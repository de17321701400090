"""An ordinary PyTorch training loop that knows nothing of Parkade: a small transformer with Adam,
bf16 weights beside fp32 ones, deterministic. Prints each loss as an exact hexadecimal float and at
the end a hash of all weights and optimizer state. With --on-input one step for each line of input, with
--expandable it fails unless all of its memory is in expandable segments."""

import argparse
import hashlib
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with it

import torch  # noqa: E402
from torch import nn  # noqa: E402


class Block(nn.Module):
    """Attention written out: the fused kernels' backward passes are not deterministic."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, dtype=torch.bfloat16)
        self.out = nn.Linear(width, width, dtype=torch.bfloat16)
        self.up = nn.Linear(width, 4 * width, dtype=torch.bfloat16)
        self.down = nn.Linear(4 * width, width, dtype=torch.bfloat16)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x).bfloat16()).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)).float() / (width // self.heads) ** 0.5
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        mixed = (scores.softmax(-1).bfloat16() @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed).float()
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x).bfloat16()))).float()


class Model(nn.Module):
    def __init__(self, words, width, layers, heads):
        super().__init__()
        self.words = nn.Parameter(torch.randn(words, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        # One-hot times table: an embedding's backward adds in no fixed order.
        x = nn.functional.one_hot(tokens, self.words.shape[0]).float() @ self.words
        return self.norm(self.blocks(x)) @ self.words.t()


def state_hash(model, optimizer):
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.cpu().contiguous().view(torch.uint8).numpy().tobytes())
    for state in optimizer.state_dict()["state"].values():
        for tensor in state.values():
            digest.update(tensor.cpu().float().numpy().tobytes())
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--on-input", action="store_true")
    parser.add_argument("--expandable", action="store_true")
    options = parser.parse_args()

    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    model = Model(2048, options.width, options.layers, heads=16).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    data = torch.Generator(device="cuda").manual_seed(2)
    print(f"ready pid {os.getpid()}", flush=True)
    for step in range(options.steps):
        if options.on_input and not sys.stdin.readline():
            break
        tokens = torch.randint(2048, (8, 257), device="cuda", generator=data)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item().hex()} reserved {torch.cuda.memory_reserved()}", flush=True)
    if options.expandable and not all(s["is_expandable"] for s in torch.cuda.memory_snapshot()):
        sys.exit("some memory is not in expandable segments")
    print(f"state {state_hash(model, optimizer)}", flush=True)


if __name__ == "__main__":
    main()
