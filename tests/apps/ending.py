"""A program with a CUDA context and some GPU memory that ends as its input says: return, exit (os._exit),
abort, or exec into another program that waits. It reaches the driver by ctypes."""

import ctypes
import os
import sys

SIZE = 5 << 20


def check(result, what):
    if result != 0:
        sys.exit(f"{what}: CUDA error {result}")


def main():
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(SIZE)), "cuMemAlloc")
    print("ready", flush=True)
    how = sys.stdin.readline().strip()
    if how == "exit":
        os._exit(3)
    if how == "abort":
        os.abort()
    if how == "exec":
        os.execv("/bin/sh", ["sh", "-c", "echo another program; read line"])


main()
