// Calls that are let through a closed gate, so that ranks drain whose work waits for a peer's.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/shim/pause/gate_calls.h"

namespace parkade::shim {
namespace {

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

}  // namespace
}  // namespace parkade::shim
