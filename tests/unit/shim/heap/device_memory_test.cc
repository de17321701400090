// Building and undoing one range, step by step.
#include "shim/heap/device_memory.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "tests/unit/shim/fake_driver.h"

namespace parkade::shim {
namespace {

Range Sized(Bytes bytes) {
  Range range;
  range.bytes = bytes;
  return range;
}

TEST_CASE("a range is made of whole pieces without gaps, the last one smaller") {
  FakeDriver fake;
  DeviceMemory memory(fake.driver());
  Range range = Sized(1_GiB + 2_MiB);
  REQUIRE(memory.Build(range) == CUDA_SUCCESS);
  REQUIRE(range.pieces.size() == 3);
  CHECK(range.pieces[0].bytes == kMaxPiece);
  CHECK(range.pieces[1].offset == kMaxPiece);
  CHECK(range.pieces[2].offset == 1_GiB);
  CHECK(range.pieces[2].bytes == 2_MiB);
  CHECK(fake.Calls("cuMemSetAccess") == 1);
  memset(reinterpret_cast<void*>(range.base + 1_GiB - 4096), 0x5a, 8192);  // across two pieces
  memory.Destroy(range);
  CHECK(fake.held() == FakeDriver::Held{});
  CHECK(fake.mistakes() == 0);
}

TEST_CASE("an error at any step leaves nothing behind") {
  for (const char* call : {"cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    for (int n = 1;; ++n) {
      FakeDriver fake;
      DeviceMemory memory(fake.driver());
      Range range = Sized(1_GiB + 2_MiB);
      fake.Fail(call, n, CUDA_ERROR_OUT_OF_MEMORY);
      const CUresult r = memory.Build(range);
      if (fake.FaultPending(call)) {
        CHECK(n > 1);
        REQUIRE(r == CUDA_SUCCESS);
        break;
      }
      INFO(call << " number " << n);
      CHECK(r == CUDA_ERROR_OUT_OF_MEMORY);
      CHECK(range.base == 0);
      CHECK(range.pieces.empty());
      CHECK(fake.held() == FakeDriver::Held{});
      CHECK(fake.used(0) == 0);
      CHECK(fake.mistakes() == 0);
    }
  }
}

TEST_CASE("handles can be exported and registered where the device says so") {
  for (const bool able : {true, false}) {
    FakeDriver fake({.posix_fd = able, .rdma = able});
    DeviceMemory memory(fake.driver(), true);
    CUmemGenericAllocationHandle handle;
    REQUIRE(memory.Create(0, 2_MiB, &handle) == CUDA_SUCCESS);
    const auto prop = fake.handle_properties().at(0);
    CHECK((prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == able);
    CHECK((prop.allocFlags.gpuDirectRDMACapable != 0) == able);
    CHECK(prop.location.id == 0);
    fake.driver().mem_release(handle);
  }
}

TEST_CASE("handles that can be registered are made only where something registers") {
  FakeDriver fake;
  DeviceMemory memory(fake.driver(), false);
  CUmemGenericAllocationHandle handle;
  REQUIRE(memory.Create(0, 2_MiB, &handle) == CUDA_SUCCESS);
  CHECK(fake.handle_properties().at(0).allocFlags.gpuDirectRDMACapable == 0);
  fake.driver().mem_release(handle);
}

TEST_CASE("a kind of handle that the driver refuses is asked for once") {
  FakeDriver fake;
  DeviceMemory memory(fake.driver(), true);
  CUmemGenericAllocationHandle first, second;
  fake.Fail("cuMemCreate", 1, CUDA_ERROR_NOT_PERMITTED, 2);
  REQUIRE(memory.Create(0, 2_MiB, &first) == CUDA_SUCCESS);
  CHECK(fake.Calls("cuMemCreate") == 3);
  REQUIRE(memory.Create(0, 2_MiB, &second) == CUDA_SUCCESS);
  CHECK(fake.Calls("cuMemCreate") == 4);
  for (const auto& prop : fake.handle_properties()) {
    CHECK(prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE);
    CHECK(prop.allocFlags.gpuDirectRDMACapable == 0);
  }
  fake.driver().mem_release(first);
  fake.driver().mem_release(second);
}

TEST_CASE("out of memory is no reason to ask for another kind of handle") {
  FakeDriver fake;
  DeviceMemory memory(fake.driver());
  CUmemGenericAllocationHandle handle;
  fake.Fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(memory.Create(0, 2_MiB, &handle) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(fake.Calls("cuMemCreate") == 1);
}

TEST_CASE("a device without virtual memory management is said to have none") {
  FakeDriver fake({.vmm = false});
  DeviceMemory memory(fake.driver());
  DeviceMemory::Device device;
  CHECK(memory.Describe(0, &device) == CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace parkade::shim
