// The gate under threads: what it lets in, what it waits for, and what it leaves when it gives up.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/shim/pause/gate_calls.h"

namespace parkade::shim {
namespace {

TEST_CASE("an open gate lets calls in, nested ones too") {
  REQUIRE(Gate::Enter());
  REQUIRE(Gate::Enter());
  Gate::Leave();
  Gate::Leave();
  REQUIRE(Gate::Close(Late(), kNoCancel).ok());
  CHECK(Gate::IsClosed());
  Gate::Open();
  CHECK_FALSE(Gate::IsClosed());
}

TEST_CASE("a thread at a closed gate waits until it opens") {
  REQUIRE(Gate::Close(Late(), kNoCancel).ok());
  std::atomic<bool> passed{false};
  std::thread t([&] { Pass([&] { passed = true; }); });
  REQUIRE(Comes([] { return Gate::WaitingThreads() == 1; }));
  CHECK_FALSE(passed);
  Gate::Open();
  t.join();
  CHECK(passed);
  CHECK(Gate::WaitingThreads() == 0);
}

TEST_CASE("closing waits for the thread inside, and only until its deadline") {
  std::atomic<bool> inside{false}, leave{false};
  std::thread t([&] {
    Pass([&] {
      Pass([] {});  // still inside after it: the outer call has not ended
      inside = true;
      Comes([&] { return leave.load(); });
    });
  });
  REQUIRE(Comes([&] { return inside.load(); }));
  const auto refused = Gate::Close(Soon(), kNoCancel);
  REQUIRE_FALSE(refused.ok());
  CHECK(std::string(refused.error().reason) == "BUSY");
  CHECK(Gate::IsClosed());
  Gate::Open();
  bool closed = false;
  std::thread closer([&] { closed = Gate::Close(Late(), kNoCancel).ok(); });
  REQUIRE(Comes([] { return Gate::IsClosed(); }));
  leave = true;
  closer.join();
  t.join();
  CHECK(closed);
  Gate::Open();
}

TEST_CASE("closing stops soon after a cancel") {
  std::atomic<bool> inside{false}, leave{false}, cancel{false};
  std::thread t([&] {
    Pass([&] {
      inside = true;
      Comes([&] { return leave.load(); });
    });
  });
  REQUIRE(Comes([&] { return inside.load(); }));
  std::thread canceller([&] {
    Comes([] { return Gate::IsClosed(); });
    cancel = true;
  });
  const auto r = Gate::Close(Deadline::InMs(60'000), cancel);
  REQUIRE_FALSE(r.ok());
  CHECK(r.error().code == Code::kCancelled);
  Gate::Open();
  leave = true;
  t.join();
  canceller.join();
}

TEST_CASE("captures under way finish first, new ones wait until the gate opens") {
  const auto a = reinterpret_cast<CUstream>(0x10), b = reinterpret_cast<CUstream>(0x20);
  Gate::CaptureBegins(a);
  const auto refused = Gate::Close(Soon(), kNoCancel);
  REQUIRE_FALSE(refused.ok());
  CHECK(std::string(refused.error().reason) == "CAPTURE_ACTIVE");
  CHECK_FALSE(Gate::IsClosed());
  Gate::Open();

  bool closed = false;
  std::thread closer([&] { closed = Gate::Close(Late(), kNoCancel).ok(); });
  // The capturing thread goes on: what it records passes the gate.
  REQUIRE(Pass([] {}));
  Gate::CaptureEnded(a);
  Gate::CaptureEnded(a);  // a stream that does not capture: nothing happens
  closer.join();
  CHECK(closed);
  std::atomic<bool> began{false};
  std::thread capturer([&] {
    Gate::CaptureBegins(b);
    began = true;
    Gate::CaptureEnded(b);
  });
  REQUIRE(Comes([] { return Gate::WaitingThreads() == 1; }));
  CHECK_FALSE(began);
  Gate::Open();
  capturer.join();
  CHECK(began);
}

TEST_CASE("a sealed gate lets nothing through") {
  REQUIRE(Gate::Close(Late(), kNoCancel).ok());
  REQUIRE(Gate::Seal());
  std::atomic<bool> passed{false};
  std::thread t([&] { Pass([&] { passed = true; }); });
  REQUIRE(Comes([] { return Gate::WaitingThreads() == 1; }));
  Gate::Nudge();
  CHECK_FALSE(Comes([&] { return passed.load(); }, Soon()));
  Gate::Open();
  t.join();
  CHECK(passed);
}

TEST_CASE("a settled pause lets frees pass and fails work where that was asked for") {
  REQUIRE(Gate::Close(Late(), kNoCancel).ok());
  std::atomic<int> refused{0};
  std::thread waiting([&] { refused += Pass([] {}) ? 0 : 1; });
  REQUIRE(Comes([] { return Gate::WaitingThreads() == 1; }));
  Gate::Settle(wire::GatedWork::kFail, wire::GatedAllocations::kPass);
  waiting.join();
  CHECK(refused == 1);
  CHECK_FALSE(Pass([] {}));
  CHECK(Pass([] {}, Gate::Call::kAllocation));
  CHECK(Pass([] {}, Gate::Call::kFree));
  Gate::Open();
  CHECK(Pass([] {}));
}

TEST_CASE("a settled pause holds allocations like work unless told otherwise") {
  REQUIRE(Gate::Close(Late(), kNoCancel).ok());
  Gate::Settle(wire::GatedWork::kBlock, wire::GatedAllocations::kAsWork);
  CHECK(Pass([] {}, Gate::Call::kFree));
  std::atomic<bool> passed{false};
  std::thread t([&] { Pass([&] { passed = true; }, Gate::Call::kAllocation); });
  REQUIRE(Comes([] { return Gate::WaitingThreads() == 1; }));
  CHECK_FALSE(passed);
  Gate::Open();
  t.join();
  CHECK(passed);
}

// Each round closes the gate under load and reads plain memory that only gated threads write: a
// thread that slipped in is a wrong count here and a data race under tsan.
TEST_CASE("no thread is ever inside while the gate is closed") {
  constexpr int kThreads = 8, kRounds = 100;
  struct alignas(64) Count {
    std::atomic<uint64_t> entered{0}, left{0};
  };
  std::vector<Count> counts(kThreads);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      while (!stop) {
        Pass([&] {
          counts[size_t(i)].entered.fetch_add(1, std::memory_order_relaxed);
          counts[size_t(i)].left.fetch_add(1, std::memory_order_relaxed);
        });
      }
    });
  }
  uint64_t moved = 0, last = 0;
  for (int round = 0; round < kRounds; ++round) {
    REQUIRE(Gate::Close(Late(), kNoCancel).ok());
    uint64_t before = 0, after = 0;
    for (auto& c : counts) {
      CHECK(c.entered == c.left);
      before += c.entered;
    }
    std::this_thread::yield();
    for (auto& c : counts) after += c.entered;
    CHECK(before == after);
    moved += after != last ? 1 : 0;
    last = after;
    Gate::Open();
    REQUIRE(Comes([&] {
      uint64_t now = 0;
      for (auto& c : counts) now += c.entered;
      return now != last;
    }));
  }
  CHECK(moved > kRounds / 2);  // the load was real
  stop = true;
  for (auto& t : threads) t.join();
}

TEST_CASE("work beside the application keeps a pause waiting, and waits until the gate opens") {
  Gate::Init();
  std::atomic<bool> closed{false};
  std::atomic<int> passes{0};
  Gate::EnterWhenOpen();
  std::thread closer([&] { closed = Gate::Close(Late(), kNoCancel).ok(); });
  REQUIRE(Comes([] { return Gate::IsClosed(); }));
  CHECK_FALSE(closed);
  Gate::Leave();
  closer.join();
  CHECK(closed);
  std::thread beside([&] {
    Gate::EnterWhenOpen();
    ++passes;
    Gate::Leave();
  });
  // A ticket is for the application's threads, and what fails for them waits here.
  Gate::Nudge();
  CHECK(Gate::Seal());
  Gate::Settle(wire::GatedWork::kFail, wire::GatedAllocations::kPass);
  CHECK(passes == 0);
  CHECK(Gate::WaitingThreads() == 0);
  Gate::Open();
  beside.join();
  CHECK(passes == 1);
}

TEST_CASE("slots of ended threads are used again") {
  for (int i = 0; i < 2000; ++i) {
    std::thread([] { Pass([] {}); }).join();
  }
  REQUIRE(Gate::Close(Late(), kNoCancel).ok());
  Gate::Open();
}

}  // namespace
}  // namespace parkade::shim
