// Stream-ordered allocation and what a pool keeps.
#include "tests/unit/sim/gpu.h"
#include "tests/unit/sim/streams.h"

using namespace parkade;
using namespace parkade::sim;

TEST_CASE("memory is freed in stream order") {
  const Gpu gpu;
  const OwnStream stream;
  const Bytes before = gpu.Free();
  Barrier barrier;
  CUdeviceptr at = 0;
  REQUIRE(cuMemAllocAsync(&at, 10_MiB, stream) == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before - 10_MiB);
  REQUIRE(cuLaunchHostFunc(stream, Barrier::Wait, &barrier) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32Async(at, 1, 10_MiB / 4, stream) == CUDA_SUCCESS);
  REQUIRE(cuMemFreeAsync(at, stream) == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before - 10_MiB);
  barrier.Open();
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before);
}

TEST_CASE("a pool keeps freed memory up to its threshold, until it is trimmed") {
  const Gpu gpu;
  const OwnStream stream;
  const Bytes before = gpu.Free();
  CUmemoryPool pool = nullptr;
  REQUIRE(cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS);
  uint64_t threshold = 8_MiB, held = 0;
  REQUIRE(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) ==
          CUDA_SUCCESS);
  CUdeviceptr at = 0, again = 0;
  REQUIRE(cuMemAllocAsync(&at, 6_MiB, stream) == CUDA_SUCCESS);
  REQUIRE(cuMemFreeAsync(at, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before - 6_MiB);
  REQUIRE(cuMemAllocAsync(&again, 6_MiB, stream) == CUDA_SUCCESS);
  REQUIRE(again == at);
  CUmemoryPool owner = nullptr;
  REQUIRE(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, again) ==
          CUDA_SUCCESS);
  REQUIRE(owner == pool);
  REQUIRE(cuMemFree(again) == CUDA_SUCCESS);
  REQUIRE(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held) == CUDA_SUCCESS);
  REQUIRE(held == 6_MiB);
  REQUIRE(cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before);
}
