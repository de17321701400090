// The gate under threads: what it lets in, what it waits for, and what it leaves when it gives up.
#include "shim/pause/gate.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace parkade::shim {
namespace {

const std::atomic<bool> kNoCancel{false};

Deadline Soon() { return Deadline::InMs(30); }
Deadline Late() { return Deadline::InMs(10'000); }

// True when `condition` came to hold in time. Asserts nothing itself: Catch2 knows one thread.
template <typename Condition>
bool Comes(Condition condition, Deadline by = Late()) {
  while (!condition()) {
    if (by.Passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

// One call as an application makes it; false when the gate refuses it.
template <typename Work>
bool Pass(Work work, Gate::Call call = Gate::Call::kWork) {
  if (!Gate::Enter(call)) return false;
  work();
  Gate::Leave();
  return true;
}

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

TEST_CASE("calls are let through one at a time, in the order in which they came") {
  REQUIRE(Gate::Close(Late(), kNoCancel).ok());
  constexpr uint32_t kThreads = 5;
  std::atomic<uint32_t> passed{0};
  std::vector<uint32_t> order(kThreads);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { Pass([&] { order[passed++] = i; }); });
    REQUIRE(Comes([&] { return Gate::WaitingThreads() == i + 1; }));
  }
  // A waiter is counted just before it sleeps; one that came later must not be asleep first.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (uint32_t i = 0; i < kThreads; ++i) {
    const auto let = Gate::LetSome(1, Late(), Late(), kNoCancel);
    REQUIRE(let.ok());
    CHECK(*let);
    CHECK(passed == i + 1);
    CHECK(order[i] == i);
    CHECK(Gate::IsClosed());
  }
  const auto none = Gate::LetSome(1, Soon(), Late(), kNoCancel);
  REQUIRE(none.ok());
  CHECK_FALSE(*none);
  for (auto& t : threads) t.join();
  Gate::Open();
}

TEST_CASE("several calls are let through at once, and the gate is shut behind the last") {
  REQUIRE(Gate::Close(Late(), kNoCancel).ok());
  std::atomic<uint32_t> passed{0};
  std::thread launches([&] {
    for (int i = 0; i < 40; ++i) Pass([&] { ++passed; });
  });
  uint32_t let = 0;
  // The thread may be late for one of them: then the rest is for the next time.
  for (int tries = 0; let < 32 && tries < 32; ++tries) {
    const auto some = Gate::LetSome(32 - let, Late(), Late(), kNoCancel);
    REQUIRE(some.ok());
    REQUIRE(*some >= 1);
    let += *some;
    CHECK(passed == let);
    CHECK(Gate::IsClosed());
  }
  CHECK(let == 32);
  Gate::Open();
  launches.join();
  CHECK(passed == 40);
}

TEST_CASE("a thread that stays away after its first call ends a longer turn") {
  REQUIRE(Gate::Close(Late(), kNoCancel).ok());
  std::thread once([] { Pass([] {}); });
  const auto let = Gate::LetSome(64, Late(), Late(), kNoCancel);
  REQUIRE(let.ok());
  CHECK(*let == 1);
  once.join();
  Gate::Open();
}

TEST_CASE("one that comes late is let through, and what it leaves behind is nothing") {
  REQUIRE(Gate::Close(Late(), kNoCancel).ok());
  std::atomic<int> passed{0};
  std::thread late([&] {
    Comes([] { return false; }, Soon());
    Pass([&] { ++passed; });
    Pass([&] { ++passed; });
  });
  const auto let = Gate::LetSome(1, Late(), Late(), kNoCancel);
  REQUIRE(let.ok());
  CHECK(*let);
  REQUIRE(Comes([] { return Gate::WaitingThreads() == 1; }));
  CHECK(passed == 1);
  Gate::Open();
  late.join();
  CHECK(passed == 2);
}

TEST_CASE("a call let through that stays inside is an error, with the gate closed") {
  REQUIRE(Gate::Close(Late(), kNoCancel).ok());
  std::atomic<bool> leave{false};
  std::thread t([&] { Pass([&] { Comes([&] { return leave.load(); }); }); });
  const auto let = Gate::LetSome(1, Late(), Soon(), kNoCancel);
  REQUIRE_FALSE(let.ok());
  CHECK(std::string(let.error().reason) == "BUSY");
  CHECK(Gate::IsClosed());
  leave = true;
  t.join();
  Gate::Open();
}

TEST_CASE("a capture that alone waits is let begin, and all goes through until it has ended") {
  const auto stream = reinterpret_cast<CUstream>(0x30);
  REQUIRE(Gate::Close(Late(), kNoCancel).ok());
  std::atomic<bool> recorded{false};
  std::thread capturer([&] {
    Gate::CaptureBegins(stream);
    recorded = Pass([] {}) && Pass([] {});
    Gate::CaptureEnded(stream);
  });
  REQUIRE(Comes([] { return Gate::WaitingThreads() == 1; }));
  const auto let = Gate::LetSome(1, Deadline::InMs(200), Late(), kNoCancel);
  REQUIRE(let.ok());
  CHECK(recorded);
  CHECK(Gate::IsClosed());
  capturer.join();
  Gate::Open();
}

TEST_CASE("a capture has its turn among threads that come again and again") {
  const auto stream = reinterpret_cast<CUstream>(0x40);
  REQUIRE(Gate::Close(Late(), kNoCancel).ok());
  REQUIRE(Gate::Seal());
  std::atomic<bool> recorded{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      while (!recorded) Pass([] {});
    });
  }
  std::thread capturer([&] {
    Gate::CaptureBegins(stream);
    recorded = true;
    Gate::CaptureEnded(stream);
  });
  REQUIRE(Comes([] { return Gate::WaitingThreads() == 4; }));
  const auto let = Gate::LetSome(1, Late(), Late(), kNoCancel);
  REQUIRE(let.ok());
  CHECK(*let);
  CHECK(recorded);
  CHECK(Gate::IsClosed());
  Gate::Open();
  capturer.join();
  for (auto& t : others) t.join();
}

TEST_CASE("a call can be let through while the gate waits for one that waits for it") {
  std::atomic<bool> peer_came{false}, inside{false}, closed{false};
  std::thread waits([&] {
    Pass([&] {
      inside = true;
      Comes([&] { return peer_came.load(); });
    });
  });
  REQUIRE(Comes([&] { return inside.load(); }));
  std::thread closer([&] { closed = Gate::Close(Late(), kNoCancel).ok(); });
  REQUIRE(Comes([] { return Gate::IsClosed(); }));
  std::thread peer([&] { Pass([&] { peer_came = true; }); });
  REQUIRE(Comes([] { return Gate::WaitingThreads() == 1; }));
  CHECK_FALSE(closed);
  // A waiter is counted just before it sleeps, and only a sleeper is woken.
  REQUIRE(Comes([&] {
    Gate::Nudge();
    return peer_came.load();
  }));
  closer.join();
  CHECK(closed);
  waits.join();
  peer.join();
  CHECK_FALSE(Gate::Seal());  // something got through: what it submitted has yet to drain
  REQUIRE(Gate::Close(Late(), kNoCancel).ok());
  CHECK(Gate::Seal());
  Gate::Open();
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
