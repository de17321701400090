// A primary context that one thread lets go of while another takes it.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/unit/shim/hooks/levers.h"

namespace {

CUdeviceptr AllocateInPrimary() {
  CUcontext context = nullptr;
  CUdeviceptr p = 0;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(cuMemAlloc_v2(&p, 4096) == CUDA_SUCCESS);
  return p;
}

}  // namespace

TEST_CASE("what dies with a context is forgotten, and what is made in the next one is not") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  AllocateInPrimary();
  REQUIRE(parkade_test_allocations() == 1);
  // The release asks whether it was the last: long enough for the other thread to come in between.
  std::ofstream(getenv("SIM_FAULTS")) << "cuDevicePrimaryCtxGetState 1 wait 400ms\n";
  std::thread last([] { CHECK(cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const CUdeviceptr p = AllocateInPrimary();
  last.join();
  CHECK(parkade_test_allocations() == 1);
  CHECK(cuMemsetD8_v2(p, 1, 4096) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
  CHECK(parkade_test_allocations() == 0);
  CHECK(cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
}

TEST_CASE("a context can be made while another one that ends waits for its work") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  CUcontext ending = nullptr;
  REQUIRE(cuCtxCreate_v2(&ending, 0, 0) == CUDA_SUCCESS);
  static std::atomic<bool> made{false}, runs{false}, in_time{false};
  REQUIRE(cuLaunchHostFunc(
              nullptr,
              [](void*) {
                runs = true;
                for (int i = 0; i < 5000 && !made; ++i) {
                  std::this_thread::sleep_for(std::chrono::milliseconds(1));
                }
                in_time = made.load();
              },
              nullptr) == CUDA_SUCCESS);
  while (!runs) std::this_thread::yield();
  std::thread makes([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CUcontext other = nullptr;
    CHECK(cuCtxCreate_v2(&other, 0, 0) == CUDA_SUCCESS);
    made = true;
    CHECK(cuCtxDestroy_v2(other) == CUDA_SUCCESS);
  });
  CHECK(cuCtxDestroy_v2(ending) == CUDA_SUCCESS);
  makes.join();
  CHECK(in_time);
}
