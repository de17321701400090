"""The trainer's process of the colocated loop: REINFORCE with Adam on the samples that the engine has made."""

from __future__ import annotations

import hashlib
from typing import Any

import side  # first: it sets what cuBLAS reads when it is loaded
import torch

import parkade
from model import PROMPT, WORDS, Model

RATE, DECAYS = 2e-3, (0.9, 0.95)


class Trainer:
    def build(self, device: str, bytes: int, width: int, layers: int) -> dict[str, Any]:
        """Takes `bytes` of GPU memory, and what the model wants beside them."""
        self.device = side.begin(device)
        self.model, self.version = Model(width, layers).to(self.device), 0
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=RATE, betas=DECAYS)
        with parkade.tag("optimizer"):
            self.moments = side.Ballast(bytes, self.device)
        return self.publish()

    def train(self, tokens: list[list[int]], versions: list[list[int]]) -> dict[str, Any]:
        """One step. `versions`: the lowest and the highest that each sample's weights had."""
        mixed = [both for both in versions if both != [self.version, self.version]]
        if mixed:
            raise RuntimeError(f"{len(mixed)} samples of {len(versions)} are not of version {self.version}: {mixed[0]}")
        samples = torch.tensor(tokens, device=self.device)
        before, after = samples[:, :-1], samples[:, 1:]
        made = slice(PROMPT - 1, None)  # what the engine wrote, of what comes after each token
        right = (after == (before + 1) % WORDS).float()[:, made]
        chosen = (self.model(before).log_softmax(-1) * self.model.one_hot(after)).sum(-1)[:, made]
        better = (right - right.mean()) / (right.std() + 1e-6)
        loss = -(better * chosen).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.moments.change()
        self.moments.check()
        self.version += 1
        return {"reward": right.mean().item(), "loss": loss.item().hex(), **self.publish()}

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
        digest = hashlib.sha256()
        states = self.optimizer.state_dict()["state"].values()
        for tensor in [*self.model.state_dict().values(), *(t for state in states for t in state.values())]:
            digest.update(tensor.detach().cpu().numpy().tobytes())
        return {"state": digest.hexdigest(), "bytes": side.used_bytes(self.device)}


side.serve(Trainer())
