"""A program with a CUDA context and some GPU memory that ends as its input says: return, exit (os._exit),
abort, or exec into another program that waits. It reaches the driver by ctypes."""

import os
import sys

from cuda_driver import allocate, load, retain

SIZE = 5 << 20


def main():
    cuda = load()
    retain(cuda, 0)
    allocate(cuda, SIZE)
    print("ready", flush=True)
    how = sys.stdin.readline().strip()
    if how == "exit":
        os._exit(3)
    if how == "abort":
        os.abort()
    if how == "exec":
        os.execv("/bin/sh", ["sh", "-c", "echo another program; read line"])


main()
