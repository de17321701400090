"""The critic's process of the colocated loop, for PPO: learns to tell the reward of each token from those before it."""

from __future__ import annotations

from typing import Any

import side  # first: it sets what cuBLAS reads when it is loaded
import torch
from torch import nn

from model import MADE, Model, rewards

RATE, DECAYS, EPOCHS = 2e-3, (0.9, 0.95), 4


class Values(Model):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__(width, layers)
        self.value = nn.Linear(width, 1)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        """The reward to expect of each token made, which it does not see: (batch, LENGTH - PROMPT)."""
        return self.value(self.states(samples[:, :-1]))[:, MADE, 0]


class Critic:
    def build(self, device: str, bytes: int, width: int, layers: int) -> dict[str, Any]:
        """Takes `bytes` of GPU memory, and what the model wants beside them."""
        self.device = side.begin(device)
        self.model = Values(width, layers).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=RATE, betas=DECAYS)
        self.moments = side.Ballast(bytes, self.device)
        return {}

    def judge(self, tokens: list[list[int]]) -> dict[str, Any]:
        """The values of a batch, as they were before one step on it."""
        samples = torch.tensor(tokens, device=self.device)
        wanted = rewards(samples)
        with torch.no_grad():
            values = self.model(samples)
        for _ in range(EPOCHS):
            loss = (self.model(samples) - wanted).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.moments.change()
        self.moments.check()
        return {"values": values.tolist(), "loss": loss.item().hex()}

    def end(self) -> dict[str, Any]:
        """A digest of weights and optimizer, and the most GPU memory that was in use."""
        return {"state": side.digest(self.model, self.optimizer), "bytes": side.used_bytes(self.device)}


side.serve(Critic())
