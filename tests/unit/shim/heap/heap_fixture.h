// HeapFixture: a heap on a fake driver with a ledger, device 0 current.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string_view>

#include "proto/ledger.h"
#include "shim/heap/heap.h"
#include "tests/unit/shim/fake_driver.h"

namespace parkade::shim {

struct HeapFixture {
  HeapFixture() : HeapFixture(FakeDriver::Options{}) {}
  explicit HeapFixture(const FakeDriver::Options& options) : fake(options) {
    FakeDriver::MakeCurrent(fake.Context(0));
    contexts.Add(fake.Context(0), 0);
    auto made = LedgerWriter::Create();
    REQUIRE(made.ok());
    ledger = std::move(*made);
    heap = std::make_unique<Heap>(fake.driver(), *ledger, contexts);
  }
  // Whatever a test did, the driver was never asked for something wrong, and all came back.
  ~HeapFixture() {
    heap.reset();
    const FakeDriver::Held held = fake.held();
    CHECK(held.handles + held.mappings + held.reservations == 0);
    CHECK(fake.mistakes() == 0);
  }

  CUdeviceptr Allocate(Bytes bytes, std::string_view tag = "default") {
    CUdeviceptr ptr = 0;
    REQUIRE(heap->Allocate(&ptr, bytes, tag) == CUDA_SUCCESS);
    return ptr;
  }
  CUresult Free(CUdeviceptr ptr) {
    CUresult result = CUDA_ERROR_UNKNOWN;
    REQUIRE(heap->Free(ptr, &result));
    return result;
  }
  // Without the native allocations that the implicit wait keeps.
  FakeDriver::Held HeldByHeap() const {
    FakeDriver::Held held = fake.held();
    held.native = 0;
    return held;
  }
  wire::LedgerView Ledger() const {
    auto view = wire::ReadLedger(ledger->fd());
    REQUIRE(view.ok());
    return *view;
  }

  FakeDriver fake;
  Contexts contexts;
  std::unique_ptr<LedgerWriter> ledger;
  std::unique_ptr<Heap> heap;
};

}  // namespace parkade::shim
