// DiskTurn: whether reads and writes of a store go to the disk at the same time, or a bucket at a
// time in turn, which suits disks that lose by a mixture.
#pragma once

#include <atomic>

#include "common/mutex.h"
#include "shim/stream/schedule_trial.h"

namespace parkade::shim {

class DiskTurn {
 public:
  enum class Schedule : uint8_t { kMixed, kPhased, kMeasured };

  explicit DiskTurn(Schedule schedule)
      : measures_(schedule == Schedule::kMeasured), phased_(schedule == Schedule::kPhased) {}

  bool phased() const { return phased_; }
  // A step begins, or is whole where its bytes belong: kMeasured goes by what they take. A lane
  // that is in the middle of a bucket ends it as it began.
  void StepBegins(uint64_t step) {
    if (measures_) phased_ = trial_.Begins(step, MonotonicNs());
  }
  void StepEnds(uint64_t step) {
    if (measures_) trial_.Ends(step, MonotonicNs());
  }

  // One lane's turn. One thread.
  class Share {
   public:
    explicit Share(DiskTurn& turn) : turn_(turn) {}
    ~Share() { End(); }
    // Before the first request of a bucket. Phased: waits while the other lane has the disk, which
    // never waits for this one in between.
    void Begin() {
      if (!turn_.phased_ || has_) return;
      MutexLock lock(turn_.mu_);
      while (turn_.taken_) turn_.changed_.WaitUntil(turn_.mu_, Deadline::InMs(60'000));
      has_ = turn_.taken_ = true;
    }
    // After its last has ended.
    void End() {
      if (!has_) return;
      MutexLock lock(turn_.mu_);
      has_ = turn_.taken_ = false;
      turn_.changed_.NotifyAll();
    }

   private:
    DiskTurn& turn_;
    bool has_ = false;
  };

 private:
  const bool measures_;
  ScheduleTrial trial_;
  std::atomic<bool> phased_;
  Mutex mu_;  // innermost
  CondVar changed_;
  bool taken_ GUARDED_BY(mu_) = false;
};

}  // namespace parkade::shim
