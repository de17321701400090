// The application's own memory through a move: what leaves, what comes back, what stays.
#include <atomic>
#include <thread>

#include "tests/unit/shim/heap/mapping_fixture.h"

namespace parkade::shim {
namespace {

TEST_CASE("what is mapped comes back at every place with its access, what has none has no bytes") {
  MappingFixture f(2);
  const Handle handle = f.Make(0);
  f.Map(handle, 8_MiB);
  f.Map(handle, 16_MiB);
  REQUIRE(f.Allow(8_MiB, kBytes, {Access(0, CU_MEM_ACCESS_FLAGS_PROT_READ), Access(1)}) ==
          CUDA_SUCCESS);
  const Handle fresh = f.Create();
  f.Map(fresh, 24_MiB);
  CHECK(f.heap->Count().live == kBytes);
  CHECK(f.heap->Count().resident == 2 * kBytes);
  f.Evict();
  CHECK(f.moving.size() == 2);
  CHECK(f.fake.handle_bytes() == 0);
  CHECK(f.fake.held().mappings == 0);
  f.BeginRestore();
  for (Range* range : f.moving) {
    CHECK(range->extents.size() == (range->bytes == kBytes && range->base == f.base ? 1 : 0));
    f.heap->MovedIn(range);
  }
  CHECK(f.fake.held().mappings == 4);
  CHECK(f.fake.access(f.base, 0) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(f.fake.access(f.base + 8_MiB, 0) == CU_MEM_ACCESS_FLAGS_PROT_READ);
  CHECK(f.fake.access(f.base + 8_MiB, 1) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(f.fake.access(f.base + 16_MiB, 0) == 0);
  CHECK(f.fake.access(f.base + 24_MiB, 0) == 0);
  for (Bytes at : {0_MiB, 8_MiB, 16_MiB, 24_MiB}) {
    CHECK(f.memory.Unmap(f.base + at, kBytes) == CUDA_SUCCESS);
  }
  CHECK(f.memory.Release(handle) == CUDA_SUCCESS);
  CHECK(f.memory.Release(fresh) == CUDA_SUCCESS);
}

TEST_CASE("bytes without a place to copy through move by addresses of the shim's own") {
  MappingFixture f(2);
  const Handle unmapped = f.Make(0);
  CHECK(f.memory.Unmap(f.base, kBytes) == CUDA_SUCCESS);
  const Handle read_only = f.Make(8_MiB);
  REQUIRE(f.Allow(8_MiB, kBytes, {Access(0, CU_MEM_ACCESS_FLAGS_PROT_READ)}) == CUDA_SUCCESS);
  const Handle peers = f.Create();
  f.Map(peers, 16_MiB);
  REQUIRE(f.Allow(16_MiB, kBytes, {Access(1)}) == CUDA_SUCCESS);
  CHECK(f.heap->Count().live == 3 * kBytes);
  const auto before = f.fake.held();
  for (int n = 0; n < 2; ++n) {
    f.moving = f.heap->BeginEviction();
    REQUIRE(f.moving.size() == 3);
    for (Range* range : f.moving) {
      CHECK(f.fake.access(range->base, 0) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
    for (Range* range : f.moving) f.heap->MovedIn(range);
    CHECK(f.fake.held() == before);
    f.Evict();
    CHECK(f.fake.held().mappings == 0);
    CHECK(f.fake.held().reservations == 1);
    f.BeginRestore();
    for (Range* range : f.moving) {
      CHECK(f.fake.access(range->base, 0) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
    for (Range* range : f.moving) f.heap->MovedIn(range);
    CHECK(f.fake.held() == before);
  }
  CHECK(f.fake.access(f.base + 8_MiB, 0) == CU_MEM_ACCESS_FLAGS_PROT_READ);
  CHECK(f.fake.access(f.base + 16_MiB, 0) == 0);
  CHECK(f.memory.Unmap(f.base, 64_MiB) == CUDA_SUCCESS);
  for (const Handle handle : {unmapped, read_only, peers}) {
    CHECK(f.memory.Release(handle) == CUDA_SUCCESS);
  }
}

TEST_CASE("a window that cannot be opened leaves the memory where it is, and it counts as held") {
  for (const char* call : {"cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}) {
    INFO(call);
    MappingFixture f;
    const Handle handle = f.Make(0);
    CHECK(f.memory.Unmap(f.base, kBytes) == CUDA_SUCCESS);
    const auto before = f.fake.held();
    f.fake.Fail(call, 1, CUDA_ERROR_OUT_OF_MEMORY);
    f.Evict();
    CHECK(f.moving.empty());
    CHECK(f.heap->HeldBytes() == kBytes);
    CHECK(f.fake.held() == before);
    f.Evict();
    CHECK(f.moving.size() == 1);
    CHECK(f.heap->HeldBytes() == 0);
    CHECK(f.memory.Release(handle) == CUDA_SUCCESS);
    CHECK(f.fake.held().reservations == 1);
  }
}

TEST_CASE("memory whose device has no context stays behind until there is one") {
  MappingFixture f;
  const Handle handle = f.Make(0);
  f.contexts.Remove(f.fake.Context(0));
  f.heap->ForgetContext(f.fake.Context(0));
  CHECK(f.fake.handle_bytes() == kBytes);
  f.Evict();
  CHECK(f.moving.empty());
  CHECK(f.heap->HeldBytes() == kBytes);
  f.contexts.Add(f.fake.Context(0), 0);
  f.Evict();
  CHECK(f.moving.size() == 1);
  CHECK(f.memory.Unmap(f.base, kBytes) == CUDA_SUCCESS);
  CHECK(f.memory.Release(handle) == CUDA_SUCCESS);
}

TEST_CASE("held memory stays in HBM, and the ledger says why") {
  MappingFixture f;
  const Handle handle = f.Make(0), other = f.Make(kBytes), third = f.Make(8_MiB);
  f.memory.Hold(handle, "one reason");
  f.memory.HoldMapped(f.base + kBytes + 5, 100, "another");
  f.Evict();
  CHECK(f.moving.size() == 1);
  CHECK(f.heap->HeldBytes() == 2 * kBytes);
  CHECK(f.heap->Count().live == 0);
  const auto ledger = f.Ledger();
  CHECK(std::string_view(ledger.header.text) == "warning: one reason\nwarning: another");
  for (const auto& record : ledger.records) {
    const bool held = record.allocation_class == uint32_t(wire::AllocationClass::kHeld);
    CHECK(held == (record.base != f.base + 8_MiB));
  }
  CHECK(f.memory.Unmap(f.base, 64_MiB) == CUDA_SUCCESS);
  for (const Handle h : {handle, other, third}) CHECK(f.memory.Release(h) == CUDA_SUCCESS);
  CHECK(f.heap->HeldBytes() == 0);
}

TEST_CASE("memory whose backing is read takes calls, and stays until the reading has ended") {
  MappingFixture f;
  const Handle unmapped = f.Make(0), released = f.Make(8_MiB);
  f.Evict();
  const auto read = f.heap->BeginReading({});
  REQUIRE(read.size() == 2);
  CHECK(read[0]->state == RangeState::kOut);
  CHECK(f.memory.Unmap(f.base, kBytes) == CUDA_SUCCESS);
  CHECK(f.memory.Unmap(f.base + 8_MiB, kBytes) == CUDA_SUCCESS);
  CHECK(f.memory.Release(released) == CUDA_SUCCESS);
  CHECK(f.ledger->requested() == 2 * kBytes);
  f.heap->EndReading(read);
  CHECK(f.ledger->requested() == kBytes);
  f.BeginRestore();
  CHECK(f.moving.size() == 1);
  for (Range* range : f.moving) f.heap->MovedIn(range);
  CHECK(f.memory.Release(unmapped) == CUDA_SUCCESS);
}

TEST_CASE("calls about memory that is moving wait until it has moved") {
  MappingFixture f;
  const Handle unmapped = f.Make(0), mapped_twice = f.Make(8_MiB), released = f.Make(16_MiB);
  f.Evict();
  f.BeginRestore();
  std::atomic<bool> moved{false};
  std::atomic<int> begun{0}, right{0};
  const auto in_thread = [&](auto call) {
    return std::thread([&begun, &moved, &right, call] {
      ++begun;
      if (call() == CUDA_SUCCESS && moved) ++right;
    });
  };
  std::thread unmap = in_thread([&] { return f.memory.Unmap(f.base, kBytes); });
  std::thread map =
      in_thread([&] { return f.memory.Map(f.base + 24_MiB, kBytes, 0, mapped_twice, 0); });
  std::thread access = in_thread([&] { return f.Allow(16_MiB, kBytes); });
  while (begun != 3) std::this_thread::yield();
  // Uses are counted at once, and what they free is freed when it has moved.
  CHECK(f.memory.Release(released) == CUDA_SUCCESS);
  moved = true;
  for (Range* range : f.moving) f.heap->MovedIn(range);
  for (std::thread* thread : {&unmap, &map, &access}) thread->join();
  CHECK(right == 3);
  CHECK(f.memory.Unmap(f.base, 64_MiB) == CUDA_SUCCESS);
  CHECK(f.fake.handle_bytes() == 2 * kBytes);
  for (const Handle h : {unmapped, mapped_twice}) CHECK(f.memory.Release(h) == CUDA_SUCCESS);
}

}  // namespace
}  // namespace parkade::shim
