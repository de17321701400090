"""A program with GPU memory of two kinds, ordinary and from a stream-ordered pool, which checks the ordinary
bytes for each line of its input. It begins with a question that the driver answers with an error, as
programs do that look for what a newer driver could have. It reaches the driver by ctypes."""

import ctypes
import os
import sys

from cuda_driver import allocate, check, load, retain

SIZE, POOLED = 5 << 20, 256 << 20
UNKNOWN_ATTRIBUTE, INVALID_VALUE = 9999, 1


def main():
    cuda = load()
    device, number, pooled = ctypes.c_int(), ctypes.c_int(), ctypes.c_uint64()
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    if cuda.cuDeviceGetAttribute(ctypes.byref(number), UNKNOWN_ATTRIBUTE, device) != INVALID_VALUE:
        sys.exit("the driver knows an attribute that there is not")
    retain(cuda, 0)
    address = allocate(cuda, SIZE)
    check(cuda.cuMemAllocAsync(ctypes.byref(pooled), ctypes.c_size_t(POOLED), None), "cuMemAllocAsync")
    check(cuda.cuStreamSynchronize(None), "cuStreamSynchronize")
    wanted = os.urandom(SIZE)
    check(cuda.cuMemcpyHtoD_v2(address, wanted, ctypes.c_size_t(SIZE)), "cuMemcpyHtoD")
    print("ready", flush=True)
    for _ in sys.stdin:
        found = ctypes.create_string_buffer(SIZE)
        check(cuda.cuMemcpyDtoH_v2(found, address, ctypes.c_size_t(SIZE)), "cuMemcpyDtoH")
        if found.raw != wanted:
            sys.exit("the bytes on the GPU changed")
        print("bytes right", flush=True)


main()
