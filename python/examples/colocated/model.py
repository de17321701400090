"""A small transformer in the two forms that reinforcement learning needs: over whole sequences for the trainer, and one
token at a time with a cache for the engine. Each block's weights bear the number of the update that they came with."""

from __future__ import annotations

import math

import torch
from torch import nn

WORDS = 16
PROMPT, LENGTH = 4, 32  # tokens of a prompt, and of a whole sample
HEAD = 32  # width of an attention head
MADE = slice(PROMPT - 1, None)  # what the engine has made, of what comes after each token


def rewards(samples: torch.Tensor) -> torch.Tensor:
    """1 for each token made that counts on from the one before it, else 0: (batch, LENGTH - PROMPT)."""
    return (samples[:, 1:] == (samples[:, :-1] + 1) % WORDS).float()[:, MADE]


class Block(nn.Module):
    """Attention written out: the backward passes of the fused kernels are not deterministic."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("version", torch.zeros(1))

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """Queries, keys and values, each of (batch, heads, length, HEAD)."""
        return self.qkv(self.norm1(x)).view(*x.shape[:2], 3, -1, HEAD).permute(2, 0, 3, 1, 4)

    def mix(self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        scores = (q @ k.transpose(-1, -2) / math.sqrt(HEAD)).masked_fill(hidden, float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Parameter(torch.randn(WORDS, width) * 0.05)
        self.places = nn.Parameter(torch.randn(LENGTH, width) * 0.05)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.register_buffer("numbers", torch.arange(max(WORDS, LENGTH)), persistent=False)

    def one_hot(self, tokens: torch.Tensor) -> torch.Tensor:
        return (tokens[..., None] == self.numbers[:WORDS]).float()

    def states(self, tokens: torch.Tensor) -> torch.Tensor:
        """What is known at each token, of it and those before: (batch, length, width)."""
        # One-hot times table: an embedding's backward adds in no fixed order.
        length = tokens.shape[1]
        x = self.one_hot(tokens) @ self.words + self.places[:length]
        hidden = self.numbers[:length] > self.numbers[:length, None]
        for block in self.blocks:
            x = block.mix(x, *block.split(x), hidden)
        return self.norm(x)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """What comes after each token: scores of (batch, length, words)."""
        return self.states(tokens) @ self.words.t()

    def step(self, tokens: torch.Tensor, place: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        """The same for one token of each sample, at `place` (one number on the device), with what `cache` has of those
        before; of (batch, words)."""
        x = (self.one_hot(tokens) @ self.words + self.places.index_select(0, place))[:, None]
        here = (self.numbers[:LENGTH] == place)[:, None]
        for block, (keys, values) in zip(self.blocks, cache):
            q, k, v = block.split(x)
            keys.copy_(torch.where(here, k, keys))
            values.copy_(torch.where(here, v, values))
            x = block.mix(x, q, keys, values, self.numbers[:LENGTH] > place)
        return (self.norm(x) @ self.words.t())[:, 0]

    def cache_shape(self, batch: int) -> tuple[int, ...]:
        return len(self.blocks), 2, batch, self.words.shape[1] // HEAD, LENGTH, HEAD

    def versions(self) -> torch.Tensor:
        return torch.cat([block.version for block in self.blocks])

    def pack(self) -> torch.Tensor:
        """All weights, and their versions, in one new tensor."""
        return torch.cat([tensor.flatten() for tensor in self.state_dict().values()])

    def unpack(self, packed: torch.Tensor) -> None:
        """Takes what pack() gave, in place: nothing is allocated, and a graph that reads the weights goes on with these."""
        at = 0
        for tensor in self.state_dict().values():
            tensor.copy_(packed[at : at + tensor.numel()].view_as(tensor))
            at += tensor.numel()
        if at != packed.numel():
            raise ValueError(f"{packed.numel()} numbers for a model of {at}")
