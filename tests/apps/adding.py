"""A program that holds 64 MiB reached by ctypes alone. For each line of input a kernel adds to every word of a
copy of it, and the hash of what came out is said: always the same."""

import ctypes
import hashlib
import os
import sys

from adding_kernel import ADD_WORDS
from cuda_driver import allocate, check, load, retain

SIZE, ADDED = 64 << 20, 12345
WORDS = SIZE // 4
BLOCKS, THREADS = 1024, 256


def main():
    cuda = load()
    retain(cuda, 0)
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuModuleLoadData(ctypes.byref(module), ADD_WORDS), "cuModuleLoadData")
    check(cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"add_words"), "cuModuleGetFunction")
    held, out = allocate(cuda, SIZE), allocate(cuda, SIZE)
    check(cuda.cuMemcpyHtoD_v2(held, os.urandom(1 << 20) * 64, ctypes.c_size_t(SIZE)), "cuMemcpyHtoD")
    parameters = [out, ctypes.c_uint64(WORDS), ctypes.c_uint32(ADDED)]
    pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(p) for p in parameters))
    found = ctypes.create_string_buffer(SIZE)
    print(f"ready {SIZE}", flush=True)
    for _ in sys.stdin:
        check(cuda.cuMemcpyDtoD_v2(out, held, ctypes.c_size_t(SIZE)), "cuMemcpyDtoD")
        check(cuda.cuLaunchKernel(kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, pointers, None), "cuLaunchKernel")
        check(cuda.cuMemcpyDtoH_v2(found, out, ctypes.c_size_t(SIZE)), "cuMemcpyDtoH")
        print(f"result {hashlib.sha256(found.raw).hexdigest()}", flush=True)


main()
