"""What the programs here that reach the driver by ctypes share: opening it, and answering lines of input."""

import ctypes
import sys


def check(code, what):
    """Ends the program when the driver has refused `what`."""
    if code != 0:
        sys.exit(f"{what}: CUDA error {code}")


def load():
    """The driver, initialised."""
    cuda = ctypes.CDLL("libcuda.so.1")
    check(cuda.cuInit(0), "cuInit")
    return cuda


def retain(cuda, ordinal):
    """The primary context of a device, current on this thread."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuDeviceGet(ctypes.byref(device), ordinal), "cuDeviceGet")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    return context


def allocate(cuda, size):
    """Device memory of the current context: its address."""
    address = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)), "cuMemAlloc")
    return address


def serve(program):
    """Says that the program is ready, then answers each line of input by the method that it names."""
    print("ready", flush=True)
    for line in sys.stdin:
        verb, *words = line.split()
        print(getattr(program, verb)(*words), flush=True)
