// ParkedProcess: everything of the shim that takes part in a pause, on a fake driver, and an
// application that knows what its bytes must be.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "common/text.h"
#include "shim/cuda/scoped_context.h"
#include "shim/pause/drain.h"
#include "shim/pause/foreign_release.h"
#include "shim/pause/freezer.h"
#include "shim/pause/gate.h"
#include "tests/unit/common/io/temporary_file.h"
#include "tests/unit/shim/fake_driver.h"
#include "tests/unit/shim/pause/faulty_engine.h"
#include "tests/unit/shim/pause/faulty_memory.h"

namespace parkade::shim {

class ParkedProcess {
 public:
  explicit ParkedProcess(FakeDriver::Options options = {})
      : fake(options),
        driver(fake.driver()),
        ledger(std::move(*LedgerWriter::Create())),
        pool(driver, FaultyMemory::Map),
        heap(driver, *ledger, contexts),
        drain(driver, contexts, streams, heap.implicit_wait()),
        exports(driver, heap),
        imports(driver, heap),
        foreign(driver, *ledger),
        release(driver, contexts, foreign, *ledger, [] { return host_room; }),
        freezer(driver, heap, *ledger, pool, drain, exports, imports, release, FaultyEngine::Make) {
    host_room = 64_GiB;
    FaultyEngine::plan.Reset();
    FaultyMemory::Reset();
    Gate::Init();
    for (int device = 0; device < options.devices; ++device) {
      contexts.Add(fake.Context(device), device);
    }
    FakeDriver::MakeCurrent(fake.Context(0));
  }
  // A test that has failed in the middle must not leave the gate closed for the next.
  ~ParkedProcess() { Gate::Open(); }

  // An allocation full of a pattern of its own.
  CUdeviceptr Allocate(Bytes bytes, std::string_view tag = "default", int device = 0,
                       Saving saving = Saving::kNone) {
    FakeDriver::MakeCurrent(fake.Context(device));
    CUdeviceptr ptr = 0;
    REQUIRE(heap.Allocate(&ptr, bytes, tag, saving) == CUDA_SUCCESS);
    FakeDriver::MakeCurrent(fake.Context(0));
    app.push_back({ptr, bytes, unsigned(app.size() + 1), std::string(tag)});
    Fill(app.back());
    return ptr;
  }

  // The same of 2 MiB that the application makes and maps itself, at so many addresses one after
  // the other, in the end with the given access of the memory's device; returns the first.
  CUdeviceptr MapOwn(int device, size_t places, CUmemAccess_flags flags) {
    VirtualMemory& memory = heap.virtual_memory();
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;
    REQUIRE(driver.mem_address_reserve(&at, places * 2_MiB, 0, 0, 0) == CUDA_SUCCESS);
    REQUIRE(memory.Create(&handle, 2_MiB, prop, 0, "default") == CUDA_SUCCESS);
    for (size_t i = 0; i < places; ++i) {
      REQUIRE(memory.Map(at + i * 2_MiB, 2_MiB, 0, handle, 0) == CUDA_SUCCESS);
    }
    const auto allow = [&](CUmemAccess_flags allowed) {
      const CUmemAccessDesc access{prop.location, allowed};
      REQUIRE(memory.SetAccess(at, places * 2_MiB, &access, 1) == CUDA_SUCCESS);
    };
    allow(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    const auto seed = unsigned(app.size() + 1);
    for (size_t i = 0; i < places; ++i) app.push_back({at + i * 2_MiB, 2_MiB, seed, "default"});
    Fill(app.back());
    if (flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) allow(flags);
    REQUIRE(memory.Release(handle) == CUDA_SUCCESS);
    return at;
  }

  struct Buffer {
    CUdeviceptr ptr;
    Bytes bytes;
    unsigned seed;
    std::string tag;
  };
  static uint32_t Word(const Buffer& b, Bytes i) { return uint32_t(i * 2654435761u) ^ b.seed; }
  static void Fill(const Buffer& b) {
    auto* words = reinterpret_cast<uint32_t*>(b.ptr);
    for (Bytes i = 0; i < b.bytes / 4; ++i) words[i] = Word(b, i);
    for (Bytes i = b.bytes / 4 * 4; i < b.bytes; ++i) {
      reinterpret_cast<unsigned char*>(b.ptr)[i] = (unsigned char)(i ^ b.seed);
    }
  }
  static bool Right(const Buffer& b) {
    const auto* words = reinterpret_cast<const uint32_t*>(b.ptr);
    for (Bytes i = 0; i < b.bytes / 4; ++i) {
      if (words[i] != Word(b, i)) return false;
    }
    for (Bytes i = b.bytes / 4 * 4; i < b.bytes; ++i) {
      if (reinterpret_cast<const unsigned char*>(b.ptr)[i] != (unsigned char)(i ^ b.seed)) {
        return false;
      }
    }
    return true;
  }
  // Every buffer, but for those of a tag whose bytes were given up.
  bool BytesRight(std::string_view but = "") const {
    return std::all_of(app.begin(), app.end(),
                       [but](const Buffer& b) { return b.tag == but || Right(b); });
  }

  Freezer::Outcome Prepare(const Freezer::GateOrder& order = {}) {
    freezer.ClearAbort();
    return freezer.Prepare(Deadline::InMs(5000), order);
  }
  // Prepares and commits, with files of their own for what goes to disk.
  Freezer::Outcome Pause(wire::Policy policy, EvictionPlan plan = {},
                         const Freezer::GateOrder& order = {}) {
    if (plan.host_bytes == 0 && policy != wire::Policy::kDisk) plan.host_bytes = 4_GiB;
    plan.policy = policy;
    auto prepared = Prepare(order);
    if (!prepared.result.ok()) return prepared;
    std::vector<Fd> files;
    if (policy == wire::Policy::kDisk || policy == wire::Policy::kAuto) {
      if (plan.disk_bytes == 0) plan.disk_bytes = prepared.stats.pausable_bytes;
      for (int i = 0; i < file_count; ++i) {
        if (same_files && !backups.empty()) {
          files.emplace_back(dup(backups[size_t(i)].get()));
          continue;
        }
        const Bytes size = RoundUp(plan.disk_bytes / file_count, 4096);
        files.push_back(files_in_memory ? MemoryFile(size) : TemporaryFile(size));
      }
    }
    if (!files.empty()) backups.clear();
    for (const Fd& file : files) backups.emplace_back(dup(file.get()));
    plan.files = files;
    return freezer.Commit(2, plan);
  }
  Freezer::Outcome Resume() { return freezer.Resume(3); }

  static wire::TagPolicy Tag(std::string_view tag, wire::Policy policy) {
    wire::TagPolicy named{};
    CopyText(named.tag, tag);
    named.policy = uint32_t(policy);
    return named;
  }

  bool Runs() const {
    return freezer.state() == wire::ProcessState::kRunning &&
           ledger->state() == wire::ProcessState::kRunning && !Gate::IsClosed();
  }
  bool Is(wire::ProcessState state) const {
    return freezer.state() == state && ledger->state() == state && Gate::IsClosed();
  }

  // Nothing of the pool is in use but for backups that are kept.
  bool OnlyKept() const {
    return pool.used() == wire::ReadLedgerHeader(ledger->fd())->host_retained_bytes;
  }

  int file_count = 1;
  bool files_in_memory = false;  // faster where the disk does not matter
  bool same_files = false;       // those of the pause before, as a daemon gives them
  std::vector<Fd> backups;       // the files of the last pause that had any
  FakeDriver fake;
  Driver driver;  // may be changed before anything is called
  Contexts contexts;
  Streams streams;
  std::unique_ptr<LedgerWriter> ledger;
  HostPool pool;  // before the heap, whose ranges may hold blocks of it
  Heap heap;
  Drain drain;
  ShareServer exports;
  Imports imports;
  Foreign foreign;
  static inline Bytes host_room;
  ForeignRelease release;
  Freezer freezer;
  std::vector<Buffer> app;
};

}  // namespace parkade::shim
