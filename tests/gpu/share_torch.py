"""PyTorch tensors shared between two processes through torch.multiprocessing, that is by CUDA IPC. Knows
nothing of Parkade. One line of output for each step; a step for each line of input."""

import sys

import torch
import torch.multiprocessing as mp

SIZES = (1000, 1 << 20, 160 << 20)  # elements: in a slab, in a large slab, of its own


def consumer(tensors, go, done):
    """Holds the producer's tensors, and for each word adds one to all of them."""
    with torch.cuda.stream(torch.cuda.Stream()):
        mine = torch.ones(1 << 20, device="cuda")
        held = [tensors.get() for _ in SIZES]
        while go.get() == "step":
            for tensor in held:
                tensor += 1
            torch.cuda.synchronize()
            done.put([float(tensor.sum(dtype=torch.float64)) for tensor in held] + [float(mine.sum())])
    del held
    done.put("over")


def main():
    mp.set_start_method("spawn")
    shared = [torch.zeros(size, device="cuda") for size in SIZES]
    tensors, go, done = mp.Queue(), mp.Queue(), mp.Queue()
    child = mp.Process(target=consumer, args=(tensors, go, done))
    child.start()
    for tensor in shared:
        tensors.put(tensor)
    go.put("step")
    first = done.get()
    print(f"ready {child.pid} {first}", flush=True)
    for step, _ in enumerate(sys.stdin):
        go.put("step")
        theirs = done.get()
        ours = [float(tensor.sum(dtype=torch.float64)) for tensor in shared]
        wanted = [float(size * (step + 2)) for size in SIZES]
        if theirs[: len(SIZES)] != wanted or ours != wanted or theirs[-1] != float(1 << 20):
            sys.exit(f"step {step}: {theirs} and {ours} instead of {wanted}")
        print(f"step {step} right", flush=True)
    go.put("end")
    done.get()
    child.join()
    print("done", flush=True)


if __name__ == "__main__":
    main()
