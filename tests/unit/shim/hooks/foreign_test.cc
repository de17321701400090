// Memory that stays the driver's own, under the hooks on the simulated GPU: counted while it lives.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <thread>

#include "tests/unit/shim/hooks/context.h"
#include "tests/unit/shim/hooks/levers.h"

TEST_CASE("memory of a communication library stays native and is counted") {
  Context context;
  void* library = dlopen(PARKADE_LIBNCCL, RTLD_LAZY | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  auto* alloc =
      reinterpret_cast<int (*)(unsigned long long*, size_t)>(dlsym(library, "nccl_like_alloc"));
  auto* release = reinterpret_cast<int (*)(unsigned long long)>(dlsym(library, "nccl_like_free"));
  const uint64_t before = parkade_test_allocations();
  unsigned long long p = 0;
  REQUIRE(alloc(&p, 1 << 20) == 0);
  CHECK(parkade_test_allocations() == before);
  CHECK(parkade_test_foreign_bytes() == 1 << 20);
  // Refused on a thread without a context, it is there as before.
  std::thread([&] {
    CHECK(cuMemFreeAsync(p, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(parkade_test_foreign_bytes() == 1 << 20);
  }).join();
  CHECK(parkade_test_ledger_says("NCCL_GRAPH_REGISTER=0 and NCCL_LOCAL_REGISTER=0 keep it from"));
  CHECK(release(p) == 0);
  CHECK(parkade_test_foreign_bytes() == 0);
  CHECK(release(p) != 0);
  CHECK(parkade_test_foreign_bytes() == 0);
  REQUIRE(alloc(&p, 1 << 20) == 0);
  CHECK(cuMemFreeAsync(p, nullptr) == CUDA_SUCCESS);
  CHECK(parkade_test_foreign_bytes() == 0);
  dlclose(library);
}
