// The application's calls about memory of its own: handles, places, access, questions.
#include <string_view>

#include "tests/unit/shim/heap/mapping_fixture.h"

namespace parkade::shim {
namespace {

TEST_CASE("a handle stays good while the driver's own behind it goes and is made anew") {
  MappingFixture f;
  const Handle handle = f.Create();
  CHECK(VirtualMemory::IsLogical(handle));
  Handle before = 0, after = 0;
  REQUIRE(f.memory.Resolve(handle, &before) == CUDA_SUCCESS);
  f.Evict();
  CHECK(f.fake.handle_bytes() == 0);
  CHECK(f.memory.Resolve(handle, &after) == VirtualMemory::kIsOut);
  f.Restore();
  REQUIRE(f.memory.Resolve(handle, &after) == CUDA_SUCCESS);
  CHECK(before != after);
  CHECK(f.fake.handle_properties()[0].requestedHandleTypes ==
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CHECK(f.memory.Release(handle) == CUDA_SUCCESS);
}

TEST_CASE("handles count their uses as the driver's do, and memory outlives them while mapped") {
  MappingFixture f;
  const Handle handle = f.Make(0);
  CHECK(f.memory.Retain(f.base + 5) == handle);
  CHECK(f.memory.Release(handle) == CUDA_SUCCESS);
  CHECK(f.memory.Release(handle) == CUDA_SUCCESS);
  CHECK(f.memory.Release(handle) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.memory.Map(f.base + 8_MiB, kBytes, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CUmemAllocationProp prop;
  CHECK(f.memory.GetProperties(handle, &prop) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.fake.handle_bytes() == kBytes);
  // Through a pause too.
  f.Evict();
  f.Restore();
  CHECK(f.fake.handle_bytes() == kBytes);
  CHECK(f.memory.Retain(f.base) == handle);
  CHECK(f.memory.GetProperties(handle, &prop) == CUDA_SUCCESS);
  CHECK(f.memory.Unmap(f.base, kBytes) == CUDA_SUCCESS);
  CHECK(f.fake.handle_bytes() == kBytes);
  CHECK(f.memory.Release(handle) == CUDA_SUCCESS);
  CHECK(f.fake.handle_bytes() == 0);
  CHECK_FALSE(f.memory.Retain(f.base));
}

TEST_CASE("access is set over several mappings at once, and one record lists each memory") {
  MappingFixture f;
  const Handle first = f.Create(), second = f.Create();
  f.Map(first, 0);
  f.Map(second, kBytes);
  CHECK(f.Ledger().records.empty());
  REQUIRE(f.Allow(0, 2 * kBytes) == CUDA_SUCCESS);
  f.Map(first, 8_MiB);
  REQUIRE(f.Allow(8_MiB, kBytes) == CUDA_SUCCESS);
  auto records = f.Ledger().records;
  REQUIRE(records.size() == 2);
  CHECK(records[0].base == f.base);
  CHECK(records[0].bytes == kBytes);
  CHECK(std::string_view(records[0].tag) == "default");
  CHECK(f.Ledger().header.devices[0].resident_bytes == 2 * kBytes);
  // The record follows the bytes to the place that is left.
  CHECK(f.memory.Unmap(f.base, 2 * kBytes) == CUDA_SUCCESS);
  CHECK(f.memory.Release(second) == CUDA_SUCCESS);
  records = f.Ledger().records;
  REQUIRE(records.size() == 1);
  CHECK(records[0].base == f.base + 8_MiB);
  f.Evict();
  CHECK(f.Ledger().records[0].place == uint32_t(wire::Place::kHost));
  CHECK(f.Ledger().header.devices[0].resident_bytes == 0);
  f.Restore();
  CHECK(f.Ledger().records[0].place == uint32_t(wire::Place::kGpu));
  CHECK(f.memory.Unmap(f.base + 8_MiB, kBytes) == CUDA_SUCCESS);
  CHECK(f.memory.Release(first) == CUDA_SUCCESS);
  CHECK(f.Ledger().records.empty());
  CHECK(f.Ledger().header.devices[0].resident_bytes == 0);
  CHECK(f.Ledger().header.devices[0].requested_bytes == 0);
}

struct Kept : Backing {
  explicit Kept(int& live) : live_(live) { ++live_; }
  ~Kept() override { --live_; }
  bool in_host_memory() const override { return true; }
  void AddFileParts(std::vector<FilePart>&) const override {}
  const char* in_one_piece() const override { return nullptr; }
  wire::Place place() const override { return wire::Place::kHost; }
  int& live_;
};

TEST_CASE("what is out is unmapped and released without the driver, and its backup goes with it") {
  MappingFixture f;
  const Handle early = f.Make(0), late = f.Make(kBytes), kept = f.Make(8_MiB);
  REQUIRE(f.memory.Release(early) == CUDA_SUCCESS);
  f.Evict();
  int backups = 0;
  for (Range* range : f.moving) range->backing = std::make_unique<Kept>(backups);
  REQUIRE(backups == 3);
  const int unmaps = f.fake.Calls("cuMemUnmap"), releases = f.fake.Calls("cuMemRelease");
  // Two at once, over a hole that the driver does not know either.
  CHECK(f.memory.Unmap(f.base, 2 * kBytes) == CUDA_SUCCESS);
  CHECK(backups == 2);
  CHECK(f.memory.Release(late) == CUDA_SUCCESS);
  CHECK(backups == 1);
  CHECK(f.memory.Release(late) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.memory.Unmap(f.base + 8_MiB, kBytes) == CUDA_SUCCESS);
  CHECK(backups == 1);  // the handle can be mapped again
  CHECK(f.fake.Calls("cuMemUnmap") == unmaps);
  CHECK(f.fake.Calls("cuMemRelease") == releases);
  CHECK(f.Ledger().records.size() == 1);
  f.BeginRestore();
  REQUIRE(f.moving.size() == 1);
  CHECK(f.fake.access(f.moving[0]->base, 0) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  f.moving[0]->backing.reset();
  f.heap->MovedIn(f.moving[0]);
  CHECK(f.fake.handle_bytes() == kBytes);
  CHECK(f.fake.held().mappings == 0);
  CHECK(f.memory.Release(kept) == CUDA_SUCCESS);
}

TEST_CASE("a place that is out is as mapped as before: nothing else fits there") {
  MappingFixture f;
  const Handle out = f.Make(0);
  f.Evict();
  const Handle fresh = f.Make(kBytes);  // as with the gate open
  CHECK(f.memory.Map(f.base, kBytes, 0, fresh, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.memory.FreeAddresses(f.base, 64_MiB) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.memory.Map(f.base + 8_MiB, kBytes, 0, out, 0) == VirtualMemory::kIsOut);
  CHECK(f.Allow(0, 2 * kBytes) == VirtualMemory::kIsOut);
  CHECK(f.memory.Unmap(f.base + 1_MiB, 1_MiB) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.fake.mistakes() == 0);
  // One call for what is out and what is not.
  CHECK(f.memory.Unmap(f.base, 2 * kBytes) == CUDA_SUCCESS);
  CHECK(f.fake.held().mappings == 0);
  for (const Handle h : {out, fresh}) CHECK(f.memory.Release(h) == CUDA_SUCCESS);
}

TEST_CASE("questions about an address have the same answers before, during and after a pause") {
  MappingFixture f(2);
  const Handle handle = f.Make(0);
  REQUIRE(f.Allow(0, kBytes, {Access(1, CU_MEM_ACCESS_FLAGS_PROT_READ)}) == CUDA_SUCCESS);
  const auto id = f.Number(5, CU_POINTER_ATTRIBUTE_BUFFER_ID);
  const auto block = f.Number(5, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID);
  CHECK_FALSE(f.memory.Ask(f.base, CU_POINTER_ATTRIBUTE_MAPPING_SIZE));  // the driver knows it
  CHECK_FALSE(f.memory.FindMissing(f.base));
  CHECK_FALSE(f.memory.MissingAccess(f.base, Access(0).location));
  CHECK_FALSE(f.memory.Ask(f.base + kBytes, CU_POINTER_ATTRIBUTE_BUFFER_ID));
  f.Evict();
  CHECK(f.Number(5, CU_POINTER_ATTRIBUTE_BUFFER_ID) == id);
  CHECK(f.Number(5, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID) == block);
  CHECK(f.Number(5, CU_POINTER_ATTRIBUTE_MAPPING_SIZE) == kBytes);
  CHECK(f.Number(5, CU_POINTER_ATTRIBUTE_DEVICE_POINTER) == f.base + 5);
  CHECK(f.memory.Ask(f.base, CU_POINTER_ATTRIBUTE_IS_MANAGED)->width == 1);
  CHECK(f.memory.Ask(f.base, CU_POINTER_ATTRIBUTE_HOST_POINTER)->result ==
        CUDA_ERROR_INVALID_VALUE);
  REQUIRE(f.memory.FindMissing(f.base + 5));
  CHECK(f.memory.FindMissing(f.base + 5)->base == f.base);
  CHECK(f.memory.MissingAccess(f.base, Access(0).location) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(f.memory.MissingAccess(f.base, Access(1).location) == CU_MEM_ACCESS_FLAGS_PROT_READ);
  CHECK(f.memory.Retain(f.base + 5) == handle);
  CHECK(f.memory.Release(handle) == CUDA_SUCCESS);
  FakeDriver::MakeCurrent(nullptr);
  CHECK(f.memory.Ask(f.base, CU_POINTER_ATTRIBUTE_BUFFER_ID));
  CHECK_FALSE(f.memory.FindMissing(f.base));
  FakeDriver::MakeCurrent(f.fake.Context(0));
  f.Restore();
  CHECK(f.Number(5, CU_POINTER_ATTRIBUTE_BUFFER_ID) == id);
  CHECK(f.Number(5, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID) == block);
  CHECK_FALSE(f.memory.Ask(f.base, CU_POINTER_ATTRIBUTE_MAPPING_SIZE));
  CHECK(f.memory.Unmap(f.base, kBytes) == CUDA_SUCCESS);
  CHECK(f.memory.Release(handle) == CUDA_SUCCESS);
}

TEST_CASE("a driver call that fails leaves tables and driver as they were") {
  MappingFixture f;
  f.fake.Fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
  Handle none = 7;
  CHECK(f.memory.Create(&none, kBytes, OnDevice(0), 0, "default") == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(none == 7);
  const Handle handle = f.Create();
  f.fake.Fail("cuMemMap", 1, CUDA_ERROR_UNKNOWN);
  CHECK(f.memory.Map(f.base, kBytes, 0, handle, 0) == CUDA_ERROR_UNKNOWN);
  CHECK_FALSE(f.memory.Retain(f.base));
  f.Map(handle, 0);
  f.fake.Fail("cuMemSetAccess", 1, CUDA_ERROR_UNKNOWN);
  CHECK(f.Allow(0, kBytes) == CUDA_ERROR_UNKNOWN);
  CHECK(f.heap->Count().live == 0);
  REQUIRE(f.Allow(0, kBytes) == CUDA_SUCCESS);
  f.fake.Fail("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
  CHECK(f.memory.Unmap(f.base, kBytes) == CUDA_ERROR_UNKNOWN);
  CHECK(f.memory.Retain(f.base) == handle);
  CHECK(f.memory.Release(handle) == CUDA_SUCCESS);
  f.Evict();
  f.Restore();
  CHECK(f.memory.Unmap(f.base, kBytes) == CUDA_SUCCESS);
  Handle physical = 0;
  REQUIRE(f.memory.Resolve(handle, &physical) == CUDA_SUCCESS);
  f.fake.Fail("cuMemRelease", 1, CUDA_ERROR_UNKNOWN);
  CHECK(f.memory.Release(handle) == CUDA_ERROR_UNKNOWN);
  CHECK(f.driver.mem_release(physical) == CUDA_SUCCESS);
}

}  // namespace
}  // namespace parkade::shim
