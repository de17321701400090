// Application threads, queries and pauses at once; run under tsan too.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/shim/heap/heap_fixture.h"

namespace parkade::shim {
namespace {

constexpr int kThreads = 6;
constexpr int kRounds = 1500;

// Catch2 asserts on one thread alone.
void Must(bool condition, int line) {
  if (condition) return;
  fprintf(stderr, "heap_threads_test.cc:%d failed\n", line);
  abort();
}
#define MUST(condition) Must(condition, __LINE__)

// Allocates, writes a mark of its own, looks, checks the mark, frees.
void Application(HeapFixture& f, int id, bool touch) {
  FakeDriver::MakeCurrent(f.fake.Context(id % 2));
  std::mt19937 random(static_cast<unsigned>(id));
  const Bytes sizes[] = {64, 4096, 1_MiB, 2_MiB, 20_MiB, 40_MiB};
  std::vector<CUdeviceptr> live;
  for (int i = 0; i < kRounds; ++i) {
    if (live.size() < 8) {
      CUdeviceptr ptr = 0;
      MUST(f.heap->Allocate(&ptr, sizes[random() % 6], "t") == CUDA_SUCCESS);
      if (touch) *reinterpret_cast<int*>(ptr) = id;
      live.push_back(ptr);
    }
    std::swap(live[random() % live.size()], live.back());
    const auto view = f.heap->Find(live.back());
    MUST(view && view->base == live.back() && view->device == id % 2);
    if (random() % 2 == 0) {
      CUresult result = CUDA_ERROR_UNKNOWN;
      if (touch) MUST(*reinterpret_cast<int*>(live.back()) == id);
      MUST(f.heap->Free(live.back(), &result) && result == CUDA_SUCCESS);
      live.pop_back();
    }
  }
  CUresult result = CUDA_ERROR_UNKNOWN;
  for (CUdeviceptr ptr : live) MUST(f.heap->Free(ptr, &result) && result == CUDA_SUCCESS);
}

TEST_CASE("threads allocate and free at once, and nothing is left") {
  HeapFixture f({.devices = 2});
  std::vector<std::thread> threads;
  for (int id = 0; id < kThreads; ++id) threads.emplace_back([&, id] { Application(f, id, true); });
  for (auto& t : threads) t.join();
  f.heap->Trim();
  CHECK(f.HeldByHeap() == FakeDriver::Held{});
  CHECK(f.Ledger().records.empty());
}

TEST_CASE("threads allocate and free while ranges move out and back, and nothing is left") {
  HeapFixture f({.devices = 2});
  std::atomic<int> working{kThreads};
  std::vector<std::thread> threads;
  for (int id = 0; id < kThreads; ++id) {
    // With no gate in front of them they may not touch what could be out.
    threads.emplace_back([&, id] {
      Application(f, id, false);
      --working;
    });
  }
  auto evict = [&](Range& range) {
    for (Piece& piece : range.pieces) {
      MUST(f.fake.driver().mem_unmap(range.base + piece.offset, piece.bytes) == CUDA_SUCCESS);
      MUST(f.fake.driver().mem_release(piece.handle) == CUDA_SUCCESS);
      piece.handle = 0;
    }
  };
  auto restore = [&](Range& range) {
    for (Piece& piece : range.pieces) {
      MUST(f.heap->memory().Create(range.device, piece.bytes, &piece.handle) == CUDA_SUCCESS);
      MUST(f.fake.driver().mem_map(range.base + piece.offset, piece.bytes, 0, piece.handle, 0) ==
           CUDA_SUCCESS);
    }
    MUST(f.heap->memory().SetAccess(range) == CUDA_SUCCESS);
  };
  int cycles = 0;
  do {
    for (Range* range : f.heap->BeginEviction()) {
      evict(*range);
      f.heap->MovedOut(range, wire::Place::kHost);
    }
    f.heap->Count();
    for (Range* range : f.heap->BeginRestore()) {
      restore(*range);
      f.heap->MovedIn(range);
    }
    ++cycles;
  } while (working > 0);
  for (auto& t : threads) t.join();
  f.heap->Trim();
  CHECK(cycles > 1);
  CHECK(f.HeldByHeap() == FakeDriver::Held{});
  CHECK(f.heap->Count().resident == 0);
  CHECK(f.Ledger().records.empty());
  for (int device : {0, 1}) {
    CHECK(f.Ledger().header.devices[device].resident_bytes == 0);
    CHECK(f.Ledger().header.devices[device].requested_bytes == 0);
  }
}

TEST_CASE("of threads that free the same memory one succeeds") {
  HeapFixture f;
  for (int i = 0; i < 200; ++i) {
    const CUdeviceptr ptr = f.Allocate(i % 2 == 0 ? 4096 : 40_MiB);
    const CUdeviceptr neighbour = f.Allocate(4096);
    std::atomic<int> freed{0}, refused{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        CUresult result = CUDA_ERROR_INVALID_VALUE;
        // Once its range is gone the address is the driver's, which refuses it too.
        const bool ours = f.heap->Free(ptr, &result);
        ++(ours && result == CUDA_SUCCESS ? freed : refused);
      });
    }
    for (auto& t : threads) t.join();
    CHECK(freed == 1);
    CHECK(refused == 2);
    CHECK(f.Free(neighbour) == CUDA_SUCCESS);
  }
}

// In each round every thread holds the memory and lets go of it once: what is written last counts.
// The rounds are bounded by time, since each waits for the scheduler of a machine that may be
// loaded.
TEST_CASE("threads that hold memory and let go of it leave it pausable in the ledger") {
  constexpr int kHolders = 3, kHolds = 60'000, kEnd = kHolds + 1;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  HeapFixture f;
  const CUdeviceptr ptr = f.Allocate(40_MiB);
  std::atomic<int> begun{0}, done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kHolders; ++t) {
    threads.emplace_back([&] {
      for (int round = 1;; ++round) {
        while (begun < round) std::this_thread::yield();
        if (begun == kEnd) return;
        const auto held = f.heap->HoldIn(ptr, 1);
        MUST(held.has_value());
        f.heap->LetGo(*held);
        ++done;
      }
    });
  }
  int wrong = 0, round = 0;
  while (round < kHolds && (round < 1000 || std::chrono::steady_clock::now() < until)) {
    begun = ++round;
    while (done < round * kHolders) std::this_thread::yield();
    wrong += f.Ledger().records[0].allocation_class != uint32_t(wire::AllocationClass::kPausable);
  }
  begun = kEnd;
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(f.Free(ptr) == CUDA_SUCCESS);
}

}  // namespace
}  // namespace parkade::shim
