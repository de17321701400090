"""A PyTorch training loop that knows nothing of Parkade and keeps the GPU busy in every way: batches, training
and checks each on a non-blocking stream of its own, steps replayed from CUDA graphs that are captured anew again
and again, others launched one kernel after the other. Deterministic.

Runs until SIGTERM, or --steps N. Prints for each step its loss and a sum over all weights as exact hexadecimal
floats, for each capture when it began and ended (CLOCK_MONOTONIC), and at the end a hash of the state."""

import argparse
import os
import signal
import time

import train_torch  # first: it sets what cuBLAS reads when it is loaded
import torch
from torch.nn import functional

WORDS, WIDTH, LAYERS, HEADS = 2048, 512, 4, 8
BATCH, LENGTH = 8, 128
WARM_UP = 3  # eager steps that PyTorch asks for before the first capture
REPORT_EVERY = 5  # steps that the CPU may run ahead of the GPU

stop_asked = False


def ask_stop(*_):
    global stop_asked
    stop_asked = True


class Trainer:
    def __init__(self):
        torch.manual_seed(1)
        torch.use_deterministic_algorithms(True)
        self.model = train_torch.Model(WORDS, WIDTH, LAYERS, HEADS).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-4, capturable=True)
        self.data = torch.Generator(device="cuda").manual_seed(2)
        self.load, self.train, self.check = (torch.cuda.Stream() for _ in range(3))
        # What a graph reads and writes must stay where it is.
        self.inputs = torch.zeros(BATCH, LENGTH, WORDS, device="cuda")
        self.targets = torch.zeros(BATCH, LENGTH, WORDS, device="cuda")
        self.loss = torch.zeros((), device="cuda")
        self.graph = None
        torch.cuda.synchronize()

    def next_batch(self):
        self.load.wait_stream(self.train)  # which has read the batch before
        with torch.cuda.stream(self.load):
            batch = torch.randint(WORDS, (BATCH, LENGTH + 1), device="cuda", generator=self.data)
            self.inputs.copy_(functional.one_hot(batch[:, :-1], WORDS))
            self.targets.copy_(functional.one_hot(batch[:, 1:], WORDS))
        self.train.wait_stream(self.load)

    def work(self):
        """One step on the current stream; the batch is one-hot, so that nothing here depends on its values."""
        self.optimizer.zero_grad(set_to_none=True)
        hidden = self.model.norm(self.model.blocks(self.inputs @ self.model.words))
        scores = functional.log_softmax(hidden @ self.model.words.t(), dim=-1)
        loss = -(scores * self.targets).sum(-1).mean()
        loss.backward()
        self.optimizer.step()
        self.loss.copy_(loss.detach())

    def capture(self):
        graph = torch.cuda.CUDAGraph()
        begin = time.monotonic()
        with torch.cuda.graph(graph, stream=self.train):
            self.work()
        print(f"capture {begin} {time.monotonic()}", flush=True)
        self.graph = graph

    def step(self, number):
        """Returns two numbers that are still on their way on the GPU: the loss, and the sum of the weights."""
        self.next_batch()
        if number < WARM_UP or number % 4 == 3:
            with torch.cuda.stream(self.train):
                self.work()
        else:
            if self.graph is None or number % 3 == 0:
                self.capture()
            with torch.cuda.stream(self.train):
                self.graph.replay()
        self.check.wait_stream(self.train)
        with torch.cuda.stream(self.check):
            weights = torch.stack([p.detach().float().sum() for p in self.model.parameters()]).sum()
            loss = self.loss.clone()
        self.train.wait_stream(self.check)
        return loss, weights


def report(numbers):
    torch.cuda.synchronize()
    for step, loss, weights in numbers:
        print(f"step {step} loss {loss.item().hex()} weights {weights.item().hex()}", flush=True)
    numbers.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, ask_stop)
    trainer = Trainer()
    print(f"ready pid {os.getpid()}", flush=True)
    numbers, step = [], 0
    while step != options.steps and not stop_asked:
        numbers.append((step, *trainer.step(step)))
        step += 1
        if step % REPORT_EVERY == 0:
            report(numbers)
    report(numbers)
    print(f"state {train_torch.state_hash(trainer.model, trainer.optimizer)} after {step} steps", flush=True)


main()
