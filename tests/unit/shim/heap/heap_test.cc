// Allocation, free and look-up as an application meets them.
#include "shim/heap/heap.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "common/text.h"
#include "tests/unit/shim/fake_driver.h"
#include "tests/unit/shim/heap/heap_fixture.h"

namespace parkade::shim {
namespace {

using Held = FakeDriver::Held;

TEST_CASE("memory of every size is usable from its first byte to its last") {
  HeapFixture f;
  const Bytes sizes[] = {1,     511,       512,    6912,       1_MiB,  1_MiB + 1,  2_MiB - 1,
                         2_MiB, 2_MiB + 1, 20_MiB, 32_MiB - 1, 32_MiB, 32_MiB + 1, 1_GiB + 3};
  std::map<CUdeviceptr, Bytes> made;
  for (Bytes bytes : sizes) {
    const CUdeviceptr ptr = f.Allocate(bytes);
    INFO(bytes << " bytes");
    CHECK(ptr % (bytes >= 2_MiB ? 2_MiB : 512) == 0);
    *reinterpret_cast<char*>(ptr) = 1;
    *reinterpret_cast<char*>(ptr + bytes - 1) = 2;
    const auto view = f.heap->Find(ptr + bytes - 1);
    REQUIRE(view);
    CHECK(view->base == ptr);
    CHECK(view->bytes == bytes);
    CHECK(view->resident);
    CHECK(view->context == f.fake.Context(0));
    made[ptr] = bytes;
  }
  for (auto it = made.begin(); std::next(it) != made.end(); ++it) {
    CHECK(it->first + it->second <= std::next(it)->first);
  }
  for (const auto& [ptr, bytes] : made) CHECK(f.Free(ptr) == CUDA_SUCCESS);
  f.heap->Trim();
  CHECK(f.HeldByHeap() == Held{});
}

TEST_CASE("an allocation of more than 32 MiB takes what it needs, rounded up") {
  HeapFixture f;
  const CUdeviceptr ptr = f.Allocate(1_GiB + 3);
  CHECK(f.fake.handle_bytes() == 1_GiB + 2_MiB);
  CHECK(f.HeldByHeap().handles == 3);
  CHECK(f.Free(ptr) == CUDA_SUCCESS);
  CHECK(f.HeldByHeap() == Held{});
}

TEST_CASE("ten thousand allocations of 4 KiB take at most 64 MiB") {
  HeapFixture f;
  for (int i = 0; i < 10'000; ++i) f.Allocate(4096);
  CHECK(f.fake.handle_bytes() <= 64_MiB);
  CHECK(f.heap->Count().live == 10'000 * 4096);
}

TEST_CASE("slabs of middle sizes grow with use") {
  HeapFixture f;
  f.Allocate(20_MiB);
  CHECK(f.fake.handle_bytes() == 64_MiB);
  for (int i = 0; i < 40; ++i) f.Allocate(20_MiB);
  // 64, 64, 128, 256, 256, 256: 41 allocations in six handles.
  CHECK(f.HeldByHeap().handles == 6);
}

TEST_CASE("tags, devices and contexts do not share slabs") {
  HeapFixture f({.devices = 2});
  f.Allocate(4096, "a");
  f.Allocate(4096, "a");
  CHECK(f.HeldByHeap().handles == 1);
  f.Allocate(4096, "b");
  CHECK(f.HeldByHeap().handles == 2);
  FakeDriver::MakeCurrent(f.fake.Context(1));
  const CUdeviceptr far = f.Allocate(4096, "a");
  CHECK(f.HeldByHeap().handles == 3);
  CHECK(f.heap->Find(far)->device == 1);
  CHECK(f.fake.handle_properties().back().location.id == 1);
  CHECK(f.heap->Find(far)->context == f.fake.Context(1));
}

TEST_CASE("requests that the driver refuses are refused with its code") {
  HeapFixture f;
  CUdeviceptr ptr = 5;
  CHECK(f.heap->Allocate(&ptr, 0, "t") == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.heap->Allocate(nullptr, 1, "t") == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.heap->Allocate(&ptr, 32ull << 40, "t") == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(f.heap->Allocate(&ptr, SIZE_MAX, "t") == CUDA_ERROR_OUT_OF_MEMORY);
  FakeDriver::MakeCurrent(nullptr);
  CHECK(f.heap->Allocate(&ptr, 1, "t") == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(ptr == 5);
  CHECK(f.HeldByHeap() == Held{});
}

TEST_CASE("only the base of a live allocation can be freed") {
  HeapFixture f;
  const CUdeviceptr small = f.Allocate(4096), kept = f.Allocate(4096), large = f.Allocate(40_MiB);
  CHECK(f.Free(small + 256) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.Free(large + 2_MiB) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.Free(small) == CUDA_SUCCESS);
  CHECK(f.Free(small) == CUDA_ERROR_INVALID_VALUE);  // twice
  CHECK_FALSE(f.heap->Find(small));
  CHECK(f.heap->Find(kept)->base == kept);
  CHECK(f.Free(large) == CUDA_SUCCESS);
  // What the driver must answer for: its own memory, host memory, and what is no longer ours.
  CUresult result = CUDA_ERROR_UNKNOWN;
  int on_stack;
  for (CUdeviceptr other : {CUdeviceptr(0), reinterpret_cast<CUdeviceptr>(&on_stack), large}) {
    CHECK_FALSE(f.heap->Free(other, &result));
  }
  CHECK(result == CUDA_ERROR_UNKNOWN);
}

TEST_CASE("a free waits for the GPU first, on the device of the allocation") {
  HeapFixture f({.devices = 2});
  FakeDriver::MakeCurrent(f.fake.Context(1));
  const CUdeviceptr ptr = f.Allocate(40_MiB);
  FakeDriver::MakeCurrent(nullptr);
  struct Seen {
    HeapFixture& f;
    CUdeviceptr ptr;
    bool mapped = false;
    CUcontext context = nullptr;
  } seen{f, ptr};
  f.fake.OnNativeFree(
      [](void* arg) {
        auto& s = *static_cast<Seen*>(arg);
        *reinterpret_cast<char*>(s.ptr) = 1;  // a kernel that is still at work
        s.mapped = s.f.heap->Find(s.ptr).has_value();
        s.f.fake.driver().ctx_get_current(&s.context);
      },
      &seen);
  CHECK(f.Free(ptr) == CUDA_SUCCESS);
  f.fake.OnNativeFree(nullptr, nullptr);
  CHECK(seen.mapped);
  CHECK(seen.context == f.fake.Context(1));
  CHECK(f.fake.Calls("cuCtxSynchronize") == 0);
  CHECK(f.HeldByHeap() == Held{});
}

TEST_CASE("an allocation whose wait had no memory is freed after the next wait") {
  HeapFixture f;
  const CUdeviceptr first = f.Allocate(40_MiB), second = f.Allocate(40_MiB);
  f.heap->implicit_wait().Clear();
  f.fake.Fail("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, 3);
  CHECK(f.Free(first) == CUDA_SUCCESS);
  CHECK(f.Free(first) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.HeldByHeap().handles == 2);
  f.fake.FaultPending("cuMemAlloc");
  CHECK(f.Free(second) == CUDA_SUCCESS);
  CHECK(f.HeldByHeap() == Held{});
}

TEST_CASE("a free that the GPU answers with an error passes it on") {
  HeapFixture f;
  const CUdeviceptr ptr = f.Allocate(40_MiB);
  f.fake.Fail("cuMemFree", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(f.Free(ptr) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(f.HeldByHeap().handles == 1);  // the work may still use it
}

TEST_CASE("at most one empty slab stays for each size class, tag and device") {
  HeapFixture f;
  std::vector<CUdeviceptr> made;
  for (int i = 0; i < 60; ++i) made.push_back(f.Allocate(20_MiB));
  for (int i = 0; i < 5000; ++i) made.push_back(f.Allocate(4096));
  for (CUdeviceptr ptr : made) f.Free(ptr);
  CHECK(f.HeldByHeap().handles == 2);
  CHECK(f.heap->Count().live == 0);
  const Bytes kept = f.heap->Count().resident;
  CHECK(kept == f.fake.handle_bytes());
  CHECK(f.heap->Trim() == kept);
  CHECK(f.heap->Trim() == 0);
  CHECK(f.HeldByHeap() == Held{});
}

TEST_CASE("an empty slab is used again without a driver call") {
  HeapFixture f;
  f.Free(f.Allocate(20_MiB));
  const int creates = f.fake.Calls("cuMemCreate");
  f.Free(f.Allocate(20_MiB));
  CHECK(f.fake.Calls("cuMemCreate") == creates);
}

TEST_CASE("a hundred thousand mixed allocations and frees leave nothing behind") {
  HeapFixture f;
  std::mt19937 random(3);
  std::vector<CUdeviceptr> live;
  int failed = 0;
  const Bytes sizes[] = {1, 300, 4096, 100'000, 1_MiB, 2_MiB, 5_MiB, 20_MiB, 33_MiB};
  const char* tags[] = {"default", "weights", "kv_cache"};
  for (int i = 0; i < 100'000; ++i) {
    if (live.size() < 100 && random() % 2 == 0) {
      live.push_back(f.Allocate(sizes[random() % 9], tags[random() % 3]));
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      failed += f.Free(live.back()) != CUDA_SUCCESS;
      live.pop_back();
    }
  }
  for (CUdeviceptr ptr : live) failed += f.Free(ptr) != CUDA_SUCCESS;
  CHECK(failed == 0);
  CHECK(f.HeldByHeap().handles <= 6);
  f.heap->Trim();
  CHECK(f.HeldByHeap() == Held{});
  CHECK(f.Ledger().records.empty());
  CHECK(f.Ledger().header.devices[0].resident_bytes == 0);
  CHECK(f.Ledger().header.devices[0].requested_bytes == 0);
}

TEST_CASE("the ledger shows each allocation as it is") {
  HeapFixture f;
  f.Allocate(6912, "weights");
  const CUdeviceptr large = f.Allocate(40_MiB + 1, "a tag that is longer than thirty-one bytes");
  auto view = f.Ledger();
  REQUIRE(view.records.size() == 2);
  CHECK(view.records[0].bytes == 6912);
  CHECK(ReadText(view.records[0].tag) == "weights");
  CHECK(view.records[1].base == large);
  CHECK(view.records[1].number == f.heap->Find(large)->number);
  CHECK(ReadText(view.records[1].tag) == "a tag that is longer than thirt");
  CHECK(view.records[1].place == uint32_t(wire::Place::kGpu));
  CHECK(view.header.devices[0].resident_bytes == 2_MiB + 42_MiB);
  CHECK(view.header.devices[0].requested_bytes == 6912 + 40_MiB + 1);
  CHECK(view.header.devices[0].uuid[0] == 0x40);
  f.Free(large);
  view = f.Ledger();
  CHECK(view.records.size() == 1);
  CHECK(view.header.devices[0].resident_bytes == 2_MiB);
}

TEST_CASE("a context that is gone takes its memory along, and is not made current again") {
  HeapFixture f({.devices = 2});
  const CUdeviceptr near = f.Allocate(4096);
  FakeDriver::MakeCurrent(f.fake.Context(1));
  const CUdeviceptr a = f.Allocate(4096), b = f.Allocate(40_MiB);
  f.fake.DestroyContext(f.fake.Context(1));
  const int pushed = f.fake.Calls("cuCtxPushCurrent");
  f.heap->ForgetContext(f.fake.Context(1));
  CHECK(f.fake.Calls("cuCtxPushCurrent") == pushed);
  CHECK_FALSE(f.heap->Find(a));
  CHECK_FALSE(f.heap->Find(b));
  CHECK(f.heap->Find(near));
  CHECK(f.fake.used(1) == 0);
  CHECK(f.Ledger().records.size() == 1);
}

TEST_CASE("a heap that ends gives back what the application left") {
  FakeDriver fake;
  FakeDriver::MakeCurrent(fake.Context(0));
  auto ledger = LedgerWriter::Create();
  REQUIRE(ledger.ok());
  {
    const Contexts contexts;
    Heap heap(fake.driver(), **ledger, contexts);
    CUdeviceptr ptr;
    for (Bytes bytes : {4_KiB, 20_MiB, 600_MiB}) {
      REQUIRE(heap.Allocate(&ptr, bytes, "t") == CUDA_SUCCESS);
    }
  }
  CHECK(fake.held() == Held{});
  CHECK(fake.mistakes() == 0);
}

}  // namespace
}  // namespace parkade::shim
