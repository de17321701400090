"""What the programs that are one rank of several share: the process group of NCCL, with gloo for words on the host,
and steps that a test can hold between two, and end. They know nothing of Parkade.

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as for torchrun."""

import os
import sys
import threading

import torch
import torch.distributed as dist


def join():
    """This rank's number; its GPU has the same."""
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("cpu:gloo,cuda:nccl", device_id=torch.device("cuda", rank))
    return rank


class Clock:
    """Counts steps. The first `held` ones each end with a line of output and go on at a line of input; later ones run
    freely until the input of rank 0 ends, or up to `limit`."""

    EVERY = 10  # steps; all ranks agree on the end at one of these

    def __init__(self, rank, held, limit):
        self._rank, self._held, self._limit = rank, held, limit
        self._ended = threading.Event()
        self.step = 0
        if held == 0:
            self._watch_input()

    def _watch_input(self):
        threading.Thread(target=self._read_to_the_end, daemon=True).start()

    def _read_to_the_end(self):
        for _ in sys.stdin:
            pass
        self._ended.set()

    def goes_on(self):
        """After each step."""
        self.step += 1
        if self.step <= self._held:
            torch.cuda.synchronize()
            print(f"held {self.step}", flush=True)
            sys.stdin.readline()
            if self.step == self._held:
                self._watch_input()
        if self._limit:
            return self.step < self._limit
        if self.step <= self._held or self.step % self.EVERY:
            return True
        end = torch.tensor([int(self._rank == 0 and self._ended.is_set())])
        dist.all_reduce(end)
        return not end.item()
