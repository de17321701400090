// A kernel that touches what is not mapped costs the process its GPU. Alone in its program for
// that.
#include "tests/unit/sim/gpu.h"

using namespace parkade;
using namespace parkade::sim;

TEST_CASE(
    "a launch on an unmapped address is accepted, and no context works from the next wait on") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  CUcontext context = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CUdeviceptr p = 0, native = 0;
  REQUIRE(cuMemAlloc(&native, 4096) == CUDA_SUCCESS);
  REQUIRE(cuMemAddressReserve(&p, 2_MiB, 0, 0, 0) == CUDA_SUCCESS);
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  REQUIRE(cuModuleLoadData(&module, "any") == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&add, module, "add_words") == CUDA_SUCCESS);
  uint64_t n = 32;
  uint32_t one = 1;
  void* parameters[] = {&p, &n, &one};
  auto launch = [&] {
    return cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
  };
  REQUIRE(launch() == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);

  size_t free = 0, total = 0;
  CUdeviceptr more = 0;
  REQUIRE(cuMemGetInfo(&free, &total) == CUDA_ERROR_ILLEGAL_ADDRESS);
  REQUIRE(cuMemAlloc(&more, 4096) == CUDA_ERROR_ILLEGAL_ADDRESS);
  REQUIRE(cuMemFree(native) == CUDA_ERROR_ILLEGAL_ADDRESS);
  REQUIRE(launch() == CUDA_ERROR_ILLEGAL_ADDRESS);
  // What needs no context goes on.
  CUdevice gpu = -1;
  unsigned type = 0;
  REQUIRE(cuCtxGetDevice(&gpu) == CUDA_SUCCESS);
  REQUIRE(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, native) == CUDA_SUCCESS);
  REQUIRE(cuMemAddressFree(p, 2_MiB) == CUDA_SUCCESS);
  // Nor does a new context help.
  REQUIRE(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_ERROR_ILLEGAL_ADDRESS);
  REQUIRE(cuMemAlloc(&more, 4096) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}
