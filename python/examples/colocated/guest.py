"""A program that knows nothing of the loop or of Parkade, which borrows the trainer's GPU: fills memory, computes with all of
it, and looks at every number."""

from __future__ import annotations

from typing import Any

import side

ROUNDS = 20


class Guest:
    def build(self, device: str, bytes: int) -> dict[str, Any]:
        self.device = side.begin(device)
        self.numbers = side.Ballast(bytes, self.device)
        return {}

    def work(self) -> dict[str, Any]:
        for _ in range(ROUNDS):
            self.numbers.change()
            self.numbers.check()
        return {}

    def end(self) -> dict[str, Any]:
        return {"bytes": side.used_bytes(self.device)}


side.serve(Guest())
