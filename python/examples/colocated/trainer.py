"""The trainer's process of the colocated loop: REINFORCE, or PPO beside a critic, with Adam on the samples that the engine has
made."""

from __future__ import annotations

from typing import Any

import side  # first: it sets what cuBLAS reads when it is loaded
import torch

import parkade
from model import MADE, Model, rewards

RATE, DECAYS = 2e-3, (0.9, 0.95)
EPOCHS, CLIP = 4, 0.2  # of PPO


def standard(numbers: torch.Tensor) -> torch.Tensor:
    return (numbers - numbers.mean()) / (numbers.std() + 1e-6)


class Trainer:
    def build(self, device: str, bytes: int, width: int, layers: int) -> dict[str, Any]:
        """Takes `bytes` of GPU memory, and what the model wants beside them."""
        self.device = side.begin(device)
        self.model, self.version = Model(width, layers).to(self.device), 0
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=RATE, betas=DECAYS)
        with parkade.tag("optimizer"):
            self.moments = side.Ballast(bytes, self.device)
        return self.publish()

    def train(self, tokens: list[list[int]], versions: list[list[int]], values: list[list[float]] | None = None) -> dict[str, Any]:
        """One step, of PPO where there are a critic's `values` of the rewards. `versions`: the lowest and the highest that
        each sample's weights had."""
        mixed = [both for both in versions if both != [self.version, self.version]]
        if mixed:
            raise RuntimeError(f"{len(mixed)} samples of {len(versions)} are not of version {self.version}: {mixed[0]}")
        samples = torch.tensor(tokens, device=self.device)
        right = rewards(samples)
        if values is None:
            loss = self.learn(-(standard(right) * self.chosen(samples)).mean())
        else:
            loss = self.proximal(samples, standard(right - torch.tensor(values, device=self.device)))
        self.moments.change()
        self.moments.check()
        self.version += 1
        return {"reward": right.mean().item(), "loss": loss.hex(), **self.publish()}

    def proximal(self, samples: torch.Tensor, better: torch.Tensor) -> float:
        """Several updates, none of which gains by going far from the weights that have made the samples."""
        with torch.no_grad():
            old = self.chosen(samples)
        for _ in range(EPOCHS):
            ratio = (self.chosen(samples) - old).exp()
            loss = self.learn(-torch.minimum(ratio * better, ratio.clamp(1 - CLIP, 1 + CLIP) * better).mean())
        return loss

    def chosen(self, samples: torch.Tensor) -> torch.Tensor:
        """How likely the tokens made are, as logarithms."""
        before, after = samples[:, :-1], samples[:, 1:]
        return (self.model(before).log_softmax(-1) * self.model.one_hot(after)).sum(-1)[:, MADE]

    def learn(self, loss: torch.Tensor) -> float:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def publish(self) -> dict[str, Any]:
        """Puts the weights where the engine can open them, in a buffer that stays when this process is parked."""
        for block in self.model.blocks:
            block.version.fill_(self.version)
        self.published = None  # the engine has let go of it
        with torch.no_grad(), parkade.tag("transfer"):
            self.published = self.model.pack()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return {"weights": side.share(self.published), "bytes": 4 * self.published.numel()}

    def end(self) -> dict[str, Any]:
        """A digest of weights and optimizer, and the most GPU memory that was in use."""
        return {"state": side.digest(self.model, self.optimizer), "bytes": side.used_bytes(self.device)}


side.serve(Trainer())
