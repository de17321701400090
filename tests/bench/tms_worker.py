"""Holds COUNT tensors of BYTES each under torch_memory_saver's preload library; for each line of input, `pause` or
`resume`, does that to all of them and prints its seconds."""

import ctypes
import sys
import time

import torch


def main(count, each):
    saver = ctypes.CDLL(None)  # preloaded: its symbols are the process's
    tensors = [torch.full((each,), i % 251, dtype=torch.uint8, device="cuda") for i in range(count)]
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        call = {"pause": saver.tms_pause, "resume": saver.tms_resume}[line.strip()]
        torch.cuda.synchronize()
        begin = time.perf_counter()
        code = call(b"")
        torch.cuda.synchronize()
        took = time.perf_counter() - begin
        if code != 0:
            sys.exit(f"{line.strip()}: {code}")
        print(f"took {took}", flush=True)
    for i, tensor in enumerate(tensors):
        if not bool((tensor == i % 251).all()):
            sys.exit(f"tensor {i} came back with other bytes")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
