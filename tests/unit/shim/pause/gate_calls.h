// What the gate's tests share: deadlines, and calls as an application makes them.
#pragma once

#include <atomic>
#include <thread>

#include "common/deadline.h"
#include "shim/pause/gate.h"

namespace parkade::shim {

inline const std::atomic<bool> kNoCancel{false};

inline Deadline Soon() { return Deadline::InMs(30); }
inline Deadline Late() { return Deadline::InMs(10'000); }

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

}  // namespace parkade::shim
