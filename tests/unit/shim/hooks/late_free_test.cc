// Memory that a program frees when it ends: in a function for atexit, and in a static destructor.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/unit/shim/hooks/levers.h"

namespace {

// The context is never released, so that the memory is there until then.
struct Late {
  CUdeviceptr memory = 0;
  void Free() {
    if (memory == 0) return;
    const uint64_t before = parkade_test_allocations();
    // Nothing can fail a test any more but the exit code.
    if (cuMemFree_v2(memory) != CUDA_SUCCESS || parkade_test_allocations() != before - 1) _exit(3);
  }
  ~Late() { Free(); }
} in_destructor, at_exit;

}  // namespace

TEST_CASE("memory can be freed until the end of the program") {
  CUcontext context = nullptr;
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  REQUIRE(cuMemAlloc_v2(&in_destructor.memory, 4096) == CUDA_SUCCESS);
  REQUIRE(cuMemAlloc_v2(&at_exit.memory, 64 << 20) == CUDA_SUCCESS);
  REQUIRE(parkade_test_allocations() == 2);
  REQUIRE(atexit([] {
            at_exit.Free();
            at_exit.memory = 0;
          }) == 0);
}
