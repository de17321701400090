"""A program that holds 64 MiB reached by ctypes alone. For each line of input a kernel adds to every word of a
copy of it, and the hash of what came out is said: always the same."""

import ctypes
import hashlib
import os
import sys

from cuda_driver import allocate, check, load, retain

SIZE, ADDED = 64 << 20, 12345
WORDS = SIZE // 4
BLOCKS, THREADS = 1024, 256
PTX = b"""
.version 7.0
.target sm_52
.address_size 64

.visible .entry add_words(.param .u64 pointer, .param .u64 count, .param .u32 delta)
{
  .reg .pred %done;
  .reg .b32 %x, %y, %delta;
  .reg .b64 %i, %stride, %n, %base, %at;
  ld.param.u64 %base, [pointer];
  cvta.to.global.u64 %base, %base;
  ld.param.u64 %n, [count];
  ld.param.u32 %delta, [delta];
  mov.u32 %x, %ctaid.x;
  mov.u32 %y, %ntid.x;
  mul.wide.u32 %i, %x, %y;
  mov.u32 %x, %tid.x;
  cvt.u64.u32 %stride, %x;
  add.u64 %i, %i, %stride;
  mov.u32 %x, %nctaid.x;
  mul.wide.u32 %stride, %x, %y;
Next:
  setp.ge.u64 %done, %i, %n;
  @%done bra Done;
  shl.b64 %at, %i, 2;
  add.u64 %at, %base, %at;
  ld.global.u32 %x, [%at];
  add.u32 %x, %x, %delta;
  st.global.u32 [%at], %x;
  add.u64 %i, %i, %stride;
  bra Next;
Done:
  ret;
}
"""


def main():
    cuda = load()
    retain(cuda, 0)
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuModuleLoadData(ctypes.byref(module), PTX), "cuModuleLoadData")
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
