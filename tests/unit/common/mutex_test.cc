// Waiting with a deadline, and waking before it.
#include "common/mutex.h"

#include <catch2/catch.hpp>
#include <thread>

namespace parkade {
namespace {

struct Box {
  Mutex mu;
  CondVar changed;
  bool ready GUARDED_BY(mu) = false;
};

TEST_CASE("a wait ends at its deadline when nobody notifies") {
  Box box;
  const uint64_t start = MonotonicNs();
  const Deadline by = Deadline::InMs(20);
  {
    MutexLock lock(box.mu);
    while (!by.Passed()) box.changed.WaitUntil(box.mu, by);
    CHECK_FALSE(box.ready);
  }
  CHECK(MonotonicNs() - start >= 20'000'000);
}

TEST_CASE("a notified wait sees what was set before") {
  Box box;
  std::thread setter([&] {
    MutexLock lock(box.mu);
    box.ready = true;
    box.changed.NotifyAll();
  });
  const Deadline by = Deadline::InMs(10'000);
  bool seen = false;
  {
    MutexLock lock(box.mu);
    while (!box.ready && !by.Passed()) box.changed.WaitUntil(box.mu, by);
    seen = box.ready;
  }
  setter.join();
  CHECK(seen);
}

TEST_CASE("deadlines saturate instead of wrapping round") {
  CHECK(Deadline::InNs(UINT64_MAX).LeftNs() > uint64_t(1) << 60);
  CHECK(Deadline::Never().IsNever());
  CHECK(Deadline::InMs(0).Passed());
  CHECK(Deadline::InMs(5000).LeftMs(100) == 100);
}

}  // namespace
}  // namespace parkade
