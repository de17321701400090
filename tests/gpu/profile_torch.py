"""A PyTorch program under torch.profiler (CUPTI): multiplies for each line of input, and at the end says how many kernels
the profiler saw."""

import os
import sys

import torch
from torch.profiler import ProfilerActivity, profile


def main():
    a = torch.ones(2048, 2048, device="cuda")
    print(f"ready pid {os.getpid()}", flush=True)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for line in sys.stdin:
            if line.strip() == "end":
                break
            print(f"sum {(a @ a).sum().item()}", flush=True)
    kernels = sum(1 for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA)
    print(f"kernels {kernels}", flush=True)


main()
