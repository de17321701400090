"""The engine's process of the colocated loop: samples with a KV cache and a captured CUDA graph, and takes new weights in
place. It touches weights alone in update(), and may do so while its cache is out."""

from __future__ import annotations

from typing import Any, Callable

import side  # first: it sets what cuBLAS reads when it is loaded
import torch

import parkade
from model import LENGTH, PROMPT, WORDS, Model

WARM_UP = 3  # runs that PyTorch asks for before a capture
CACHE_SHARE = 2 / 3  # of the engine's memory


class Engine:
    def build(self, device: str, bytes: int, width: int, layers: int, batch: int) -> dict[str, Any]:
        """Takes `bytes` of GPU memory, and what the model wants beside them."""
        torch.set_grad_enabled(False)
        self.device = side.begin(device)
        self.batch, self.random = batch, torch.Generator(self.device).manual_seed(2)
        with parkade.tag("weights"):
            self.model = Model(width, layers).to(self.device)
            self.frozen = side.Ballast(int(bytes * (1 - CACHE_SHARE)), self.device)
        shape = torch.Size(self.model.cache_shape(batch))
        with parkade.tag("kv_cache"):
            pool = torch.empty(max(shape.numel(), int(bytes * CACHE_SHARE) // 4), device=self.device)
        self.cache = pool[: shape.numel()].view(shape)
        # What a graph reads and writes must stay where it is.
        self.place = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.columns = torch.arange(LENGTH, device=self.device)
        self.noise = torch.zeros(LENGTH, batch, WORDS, device=self.device)
        self.tokens = torch.zeros(batch, LENGTH, dtype=torch.int64, device=self.device)
        self.stamps = torch.zeros(2, batch, LENGTH, device=self.device)
        self.decode = self.captured() if device == "cuda" else self.eager
        return {}

    def eager(self) -> None:
        """The next token of each sample, and the versions of the weights that made it."""
        now = self.tokens.index_select(1, self.place)[:, 0]
        scores = self.model.step(now, self.place, self.cache)
        sampled = (scores + self.noise.index_select(0, self.place)[0]).argmax(-1)
        self.place += 1
        here = (self.columns == self.place) & (self.columns >= PROMPT)
        self.tokens.copy_(torch.where(here, sampled[:, None], self.tokens))
        versions = self.model.versions()
        both = torch.stack([versions.min(), versions.max()])[:, None, None]
        self.stamps.copy_(torch.where(here, both, self.stamps))

    def captured(self) -> Callable[[], None]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self.eager()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.eager()
        return self.graph.replay

    def generate(self) -> dict[str, Any]:
        """A batch; nothing is left running."""
        self.frozen.check()
        self.cache.zero_()  # after a pause that discarded it, it holds anything
        self.place.zero_()
        self.stamps.fill_(-1)
        self.tokens[:, :PROMPT] = torch.randint(WORDS, (self.batch, PROMPT), generator=self.random, device=self.device)
        self.noise.exponential_(generator=self.random).log_().neg_()
        for _ in range(LENGTH - 1):
            self.decode()
        made = self.stamps[:, :, PROMPT:]
        versions = torch.stack([made[0].amin(1), made[1].amax(1)], 1)
        return {"tokens": self.tokens.tolist(), "versions": versions.long().tolist()}

    def update(self, weights: str) -> dict[str, Any]:
        """Takes what the trainer has published, and lets go of it."""
        published = side.opened(weights)
        self.model.unpack(published)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return {}

    def end(self) -> dict[str, Any]:
        return {"bytes": side.used_bytes(self.device)}


side.serve(Engine())
