// MappingFixture: an application that makes and maps its own memory, on a fake driver.
#pragma once

#include <cstring>
#include <vector>

#include "shim/heap/virtual_memory.h"
#include "tests/unit/shim/heap/heap_fixture.h"

namespace parkade::shim {
using Handle = VirtualMemory::Handle;

constexpr Bytes kBytes = 2_MiB;

inline CUmemAllocationProp OnDevice(int device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return prop;
}

inline CUmemAccessDesc Access(int device,
                              CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  return {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
}

// An application with one reservation, and a mover that has nowhere to put bytes: what it evicts is
// unmapped and released, what it restores is made again.
struct MappingFixture : HeapFixture {
  explicit MappingFixture(int devices = 1) : HeapFixture(FakeDriver::Options{.devices = devices}) {
    for (int device = 1; device < devices; ++device) contexts.Add(fake.Context(device), device);
    REQUIRE(driver.mem_address_reserve(&base, 64_MiB, 0, 0, 0) == CUDA_SUCCESS);
  }
  ~MappingFixture() { CHECK(memory.FreeAddresses(base, 64_MiB) == CUDA_SUCCESS); }

  Handle Create(Bytes bytes = kBytes, int device = 0) {
    Handle handle = 0;
    REQUIRE(memory.Create(&handle, bytes, OnDevice(device), 0, "default") == CUDA_SUCCESS);
    return handle;
  }
  void Map(Handle handle, Bytes at, Bytes bytes = kBytes) {
    REQUIRE(memory.Map(base + at, bytes, 0, handle, 0) == CUDA_SUCCESS);
  }
  CUresult Allow(Bytes at, Bytes bytes, std::vector<CUmemAccessDesc> access = {Access(0)}) {
    return memory.SetAccess(base + at, bytes, access.data(), access.size());
  }
  // Memory with access, whose handle the application still has.
  Handle Make(Bytes at) {
    const Handle handle = Create();
    Map(handle, at);
    REQUIRE(Allow(at, kBytes) == CUDA_SUCCESS);
    return handle;
  }

  void Evict() {
    moving = heap->BeginEviction();
    for (Range* range : moving) {
      for (Piece& piece : range->pieces) {
        heap->memory().UnmapAll(*range, piece);
        REQUIRE(driver.mem_release(piece.handle) == CUDA_SUCCESS);
        piece.handle = 0;
      }
      heap->MovedOut(range, wire::Place::kHost);
    }
  }
  void BeginRestore() {
    moving = heap->BeginRestore();
    for (Range* range : moving) {
      Piece& piece = range->pieces[0];
      REQUIRE(heap->memory().CreateAgain(*range, piece.bytes, &piece.handle) == CUDA_SUCCESS);
      REQUIRE(heap->memory().MapAt(*range, piece, piece.handle) == CUDA_SUCCESS);
      REQUIRE(heap->memory().SetAccess(*range) == CUDA_SUCCESS);
    }
  }
  void Restore() {
    BeginRestore();
    for (Range* range : moving) heap->MovedIn(range);
  }

  uint64_t Number(Bytes at, CUpointer_attribute attribute) const {
    const auto answer = memory.Ask(base + at, attribute);
    REQUIRE(answer);
    uint64_t number = 0;
    memcpy(&number, answer->value, sizeof number);
    return number;
  }

  const Driver& driver = fake.driver();
  VirtualMemory& memory = heap->virtual_memory();
  CUdeviceptr base = 0;
  std::vector<Range*> moving;
};

}  // namespace parkade::shim
