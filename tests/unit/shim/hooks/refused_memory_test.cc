// The hooks over a wrapper that refuses virtual memory: the program gets native memory, counted.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>

#include <catch2/catch.hpp>

#include "tests/unit/shim/hooks/levers.h"

extern "C" int share_gpu_code;
extern "C" int share_gpu_calls;

namespace {

void MakeContext() {
  CUcontext context = nullptr;
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  REQUIRE(parkade_test_alive());
}

}  // namespace

TEST_CASE("memory that cannot be virtual is native, works, is counted and said") {
  MakeContext();
  for (int code : {CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_UNKNOWN}) {
    INFO(code);
    share_gpu_code = code;
    const int asked = share_gpu_calls;
    CUdeviceptr p = 0;
    REQUIRE(cuMemAlloc_v2(&p, 5000) == CUDA_SUCCESS);
    CHECK(share_gpu_calls > asked);
    CHECK(parkade_test_allocations() == 0);
    CHECK(parkade_test_foreign_bytes() == 5000);
    CUdeviceptr pitched = 0;
    size_t pitch = 0;
    REQUIRE(cuMemAllocPitch_v2(&pitched, &pitch, 100, 2, 4) == CUDA_SUCCESS);
    CHECK(parkade_test_foreign_bytes() == 5000 + 2 * pitch);
    unsigned char back = 0;
    CHECK(cuMemsetD8_v2(p, 7, 5000) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoH_v2(&back, p + 4999, 1) == CUDA_SUCCESS);
    CHECK(back == 7);
    CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
    CHECK(cuMemFree_v2(pitched) == CUDA_SUCCESS);
    CHECK(parkade_test_foreign_bytes() == 0);
  }
  CHECK(parkade_test_ledger_says("virtual memory is refused here (CUDA_ERROR_NOT_SUPPORTED)"));
}

TEST_CASE("out of memory is out of memory, whoever says it") {
  MakeContext();
  share_gpu_code = CUDA_ERROR_OUT_OF_MEMORY;
  CUdeviceptr p = 1;
  CHECK(cuMemAlloc_v2(&p, 5000) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(p == 0);
  CHECK(parkade_test_foreign_bytes() == 0);
}

TEST_CASE("a program's own mistakes keep the driver's answers") {
  MakeContext();
  share_gpu_code = CUDA_ERROR_NOT_SUPPORTED;
  CUdeviceptr p = 1;
  CHECK(cuMemAlloc_v2(&p, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAlloc_v2(nullptr, 10) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAlloc_v2(&p, size_t(32) << 40) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(p == 0);
}
