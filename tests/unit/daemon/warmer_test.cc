// Warmer: what processes are told to make ready, what is booked for it, and whom it waits for.
#include "daemon/warmer.h"

#include <sched.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "daemon/runtime_dir.h"
#include "daemon/shim_listener.h"
#include "tests/unit/daemon/fake_shim.h"
#include "tests/unit/daemon/test_dir.h"

namespace parkade::daemon {
namespace {

using testing::Act;
using testing::FakeShim;
using testing::TestDir;

// A daemon's part that shims talk to, with a budget of 64 MiB.
struct Warmth {
  Warmth()
      : listener(
            *ListenAt(dir / "shim.sock", SOCK_SEQPACKET), registry, events,
            {[](auto&, const auto&, auto) {}, [](auto) {}, [](auto) {}, [](auto, const auto&) {},
             [this](auto process, Bytes bytes) { warmer->Want(std::move(process), bytes); },
             [](const auto&, auto, const auto&) {}},
            {}) {}

  TestDir dir;
  Registry registry;
  Events events;
  Budgets budgets{64_MiB, registry};
  HostBudget budget{budgets};
  std::unique_ptr<Warmer> warmer = std::make_unique<Warmer>(budget);
  ShimListener listener;
};

bool WaitForWarms(const FakeShim& shim, int count) {
  for (const Deadline by = Deadline::InMs(5000); !by.Passed(); sched_yield()) {
    if (shim.Count(wire::Type::kWarm) == count) return true;
  }
  return false;
}

TEST_CASE("a process that wants host memory is told to make ready what the budget has") {
  Warmth w;
  FakeShim shim({});
  REQUIRE(shim.Connect(w.dir / "shim.sock").ok());
  REQUIRE(shim.AskWarm(1_GiB).ok());
  REQUIRE(WaitForWarms(shim, 1));
  CHECK(shim.last_warm() == 64_MiB);
  REQUIRE(shim.AskWarm(8_MiB).ok());
  REQUIRE(WaitForWarms(shim, 2));
  CHECK(shim.last_warm() == 8_MiB);
}

TEST_CASE("memory that is being made ready is booked") {
  Warmth w;
  FakeShim shim({});
  shim.On(wire::Type::kWarm, Act::kHang);
  REQUIRE(shim.Connect(w.dir / "shim.sock").ok());
  REQUIRE(shim.AskWarm(60_MiB).ok());
  REQUIRE(WaitForWarms(shim, 1));
  Demand demand;
  demand.by_tag["default"] = 8_MiB;
  HostBudget::Booking pause(w.budget);
  CHECK_FALSE(pause.Plan({wire::Policy::kHost, {}}, std::span(&demand, 1)).ok());
  shim.Disconnect();  // it is given back with the process's answer, whatever that is
  bool fits = false;
  for (const Deadline by = Deadline::InMs(5000); !fits && !by.Passed(); sched_yield()) {
    fits = pause.Plan({wire::Policy::kHost, {}}, std::span(&demand, 1)).ok();
  }
  CHECK(fits);
}

TEST_CASE("a daemon that ends does not wait for a process that makes memory ready") {
  Warmth w;
  FakeShim shim({});
  shim.On(wire::Type::kWarm, Act::kHang);
  REQUIRE(shim.Connect(w.dir / "shim.sock").ok());
  REQUIRE(shim.AskWarm(60_MiB).ok());
  REQUIRE(WaitForWarms(shim, 1));
  const uint64_t start_ns = MonotonicNs();
  w.warmer.reset();
  CHECK(MonotonicNs() - start_ns < 10'000'000'000);
}

}  // namespace
}  // namespace parkade::daemon
