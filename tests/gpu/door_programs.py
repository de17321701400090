"""What the programs on Python frameworks share that tests/gpu/doors_card.py pauses: one says `ready BYTES` with the size
of the allocation that it holds and of the pool it lies in, or `missing REASON`; then, for each line of input, the hash of what it computed."""

import hashlib
import sys


def missing(reason):
    print(f"missing {reason}", flush=True)
    sys.exit(0)


def serve(compute, listed):
    """`compute` returns the bytes of one result; `listed`: what must be listed as one allocation."""
    compute()  # compiles, and takes all the memory that it will need
    print(f"ready {listed}", flush=True)
    for _ in sys.stdin:
        print(f"result {hashlib.sha256(compute()).hexdigest()}", flush=True)
