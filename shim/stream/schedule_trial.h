// ScheduleTrial: whether reads and writes of a store go to the disk at once or by turns, by what
// whole steps of both kinds have taken. Any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/mutex.h"

namespace parkade::shim {

class ScheduleTrial {
 public:
  // Steps of each kind that count. The first step of all does not: its files are new.
  static constexpr int kTimed = 3;

  // A step begins: whether it goes by turns.
  bool Begins(uint64_t step, uint64_t now_ns) EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    if (chosen_) return *chosen_;
    const bool by_turns = begun_ % 2 != 0;
    under_way_[step % 2] = {step, now_ns, by_turns, begun_ != 0};
    ++begun_;
    return by_turns;
  }

  // It is whole where its bytes belong. One that never is counts for nothing.
  void Ends(uint64_t step, uint64_t now_ns) EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    const Step ended = std::exchange(under_way_[step % 2], {});
    if (chosen_ || ended.number != step || !ended.counts) return;
    Kind& kind = kinds_[ended.by_turns];
    kind.least_ns = std::min(kind.least_ns, now_ns - ended.begun_ns);
    ++kind.timed;
    if (kinds_[0].timed < kTimed || kinds_[1].timed < kTimed) return;
    chosen_ = kinds_[1].least_ns < kinds_[0].least_ns;
  }

  // Once it is decided.
  std::optional<bool> by_turns() const EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    return chosen_;
  }

 private:
  struct Step {
    uint64_t number = 0, begun_ns = 0;
    bool by_turns = false, counts = false;
  };
  struct Kind {
    uint64_t least_ns = UINT64_MAX;
    int timed = 0;
  };

  mutable Mutex mu_;  // innermost
  uint64_t begun_ GUARDED_BY(mu_) = 0;
  // By number: a step begins when the one before the last is whole, since it reads what that wrote.
  std::array<Step, 2> under_way_ GUARDED_BY(mu_);
  std::array<Kind, 2> kinds_ GUARDED_BY(mu_);  // at once, by turns
  std::optional<bool> chosen_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
