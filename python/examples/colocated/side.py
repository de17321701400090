"""What the processes of the example share: how they answer the orchestrator, how weights get from the trainer to
the engine, and the ballast that makes a small model as large as a card wants it."""

from __future__ import annotations

import base64
import faulthandler
import hashlib
import json
import os
import pickle
import sys
import time
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with it

import torch  # noqa: E402
from torch.multiprocessing.reductions import reduce_tensor  # noqa: E402

LONG = 60.0  # seconds after which a request that is still at work says where


def serve(side: Any) -> None:
    """Answers each line of input, {"do": METHOD, ...}, with what that method of `side` returns. Ends with the input, or
    with the first exception."""
    # Whatever else is printed must not get among the answers.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            request = json.loads(line)
            faulthandler.dump_traceback_later(LONG)
            begin = time.monotonic()
            answer = getattr(side, request["do"])(**request.get("with", {}))
            faulthandler.cancel_dump_traceback_later()
            if time.monotonic() - begin > 1:
                say(f"{type(side).__name__}: {request['do']} took {time.monotonic() - begin:.1f} s")
            print(json.dumps(answer), file=answers, flush=True)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def begin(device: str) -> torch.device:
    """The device, in use from here on, with numbers that are the same in each run."""
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    if device == "cuda":
        torch.zeros(1, device=device)  # parkade.tag() makes pools once CUDA is in use
        free, total = torch.cuda.mem_get_info()
        say(f"pid {os.getpid()}: PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, {free >> 20} of {total >> 20} MiB free")
    return torch.device(device)


def used_bytes(device: torch.device) -> int:
    """The most GPU memory that PyTorch has had in this process."""
    return torch.cuda.max_memory_reserved() if device.type == "cuda" else 0


def digest(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> str:
    """Of every bit of weights and optimizer."""
    found = hashlib.sha256()
    states = optimizer.state_dict()["state"].values()
    for tensor in [*model.state_dict().values(), *(t for state in states for t in state.values())]:
        found.update(tensor.detach().cpu().numpy().tobytes())
    return found.hexdigest()


def share(tensor: torch.Tensor) -> str:
    """Words by which another process opens the very memory of a CUDA tensor (CUDA IPC), which has to live until that
    has let go of it. A tensor of the CPU is in the words themselves."""
    opened = reduce_tensor(tensor) if tensor.is_cuda else (torch.from_numpy, (tensor.numpy(),))
    return base64.b64encode(pickle.dumps(opened)).decode()


def opened(words: str) -> torch.Tensor:
    """Only for words of a process that is trusted: they are a pickle."""
    build, arguments = pickle.loads(base64.b64decode(words))
    return build(*arguments)


class Ballast:
    """Bytes in the place of what a larger model would have. Row i counts from i + k after k changes, so that each change
    is one of every byte block, and a row out of its place is seen."""

    ROW = 16 << 20  # numbers of 4 bytes

    def __init__(self, size: int, device: torch.device) -> None:
        self._ramp = torch.arange(self.ROW, dtype=torch.int32, device=device)
        self._rows = torch.empty(size // (4 * self.ROW), self.ROW, dtype=torch.int32, device=device)
        self._changes = 0
        for number, row in enumerate(self._rows):
            torch.add(self._ramp, number, out=row)

    def change(self) -> None:
        self._rows += 1
        self._changes += 1

    def check(self) -> None:
        """RuntimeError unless every number is right."""
        wrong = torch.zeros((), dtype=torch.int64, device=self._rows.device)
        for number, row in enumerate(self._rows):
            wrong += (row - self._ramp != number + self._changes).sum()
        if int(wrong):
            raise RuntimeError(f"{int(wrong)} numbers of the ballast are wrong after {self._changes} changes")
