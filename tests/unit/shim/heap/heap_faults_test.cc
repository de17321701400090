// The driver refuses each step in turn, and memory runs out.
#include <catch2/catch.hpp>

#include "tests/unit/shim/heap/heap_fixture.h"

namespace parkade::shim {
namespace {

using Held = FakeDriver::Held;

TEST_CASE("an allocation that fails at any step leaves nothing and the next one works") {
  for (const Bytes bytes : {4_KiB, 20_MiB, 1_GiB + 2_MiB}) {
    for (const char* call : {"cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
      for (int n = 1;; ++n) {
        HeapFixture f;
        CUdeviceptr ptr = 0;
        // Not a lack of memory, which has a second way; not a refusal of the kind of handle.
        f.fake.Fail(call, n, CUDA_ERROR_UNKNOWN);
        const CUresult r = f.heap->Allocate(&ptr, bytes, "t");
        if (f.fake.FaultPending(call)) {
          CHECK(n > 1);
          CHECK(r == CUDA_SUCCESS);
          break;
        }
        INFO(bytes << " bytes, " << call << " number " << n);
        CHECK(r == CUDA_ERROR_UNKNOWN);
        CHECK(ptr == 0);
        CHECK(f.HeldByHeap() == Held{});
        CHECK(f.Ledger().records.empty());
        CHECK(f.Ledger().header.devices[0].resident_bytes == 0);
        CHECK(f.heap->Allocate(&ptr, bytes, "t") == CUDA_SUCCESS);
      }
    }
  }
}

TEST_CASE("when there is no memory for a slab the request gets a handle of its size") {
  HeapFixture f({.memory = 32_MiB});
  const CUdeviceptr ptr = f.Allocate(20_MiB);
  CHECK(f.fake.handle_bytes() == 20_MiB);
  CHECK(f.Free(ptr) == CUDA_SUCCESS);
  CHECK(f.HeldByHeap() == Held{});
}

TEST_CASE("empty slabs make room before an allocation fails") {
  HeapFixture f({.memory = 128_MiB});
  f.Free(f.Allocate(20_MiB, "other"));  // leaves an empty slab of 64 MiB
  REQUIRE(f.fake.handle_bytes() == 64_MiB);
  const CUdeviceptr large = f.Allocate(100_MiB);
  CHECK(f.fake.handle_bytes() == 100_MiB);
  CHECK(f.Free(large) == CUDA_SUCCESS);
}

TEST_CASE("out of memory is the native code, and what is there stays as it is") {
  HeapFixture f({.memory = 128_MiB});
  const CUdeviceptr kept = f.Allocate(90_MiB);
  const Held before = f.HeldByHeap();
  CUdeviceptr ptr = 0;
  for (const Bytes bytes : {90_MiB, 38_MiB, 127_MiB}) {
    CHECK(f.heap->Allocate(&ptr, bytes, "t") == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(f.HeldByHeap() == before);
  }
  CHECK(f.heap->Find(kept)->bytes == 90_MiB);
  CHECK(f.Ledger().records.size() == 1);
  CHECK(f.Free(kept) == CUDA_SUCCESS);
  f.Allocate(100_MiB);
}

TEST_CASE("a device without virtual memory management gets native memory from the caller") {
  HeapFixture f({.vmm = false});
  CUdeviceptr ptr = 0;
  CHECK(f.heap->Allocate(&ptr, 4096, "t") == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(f.fake.held() == Held{});
}

}  // namespace
}  // namespace parkade::shim
