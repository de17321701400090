// Timeline and Point: how far a stream has come, and what others wait for.
#pragma once

#include <cstdint>
#include <memory>

#include "common/mutex.h"

namespace parkade::sim {

// Counts the finished pieces of work of one stream. Any thread.
class Timeline {
 public:
  void Advance() {
    MutexLock lock(mu_);
    ++done_;
    changed_.NotifyAll();
  }
  uint64_t Done() {
    MutexLock lock(mu_);
    return done_;
  }
  void Wait(uint64_t position) {
    MutexLock lock(mu_);
    while (done_ < position) changed_.WaitUntil(mu_, Deadline::Never());
  }

 private:
  Mutex mu_;
  CondVar changed_;
  uint64_t done_ GUARDED_BY(mu_) = 0;
};

// A place on a timeline: reached when all work submitted up to it has finished.
struct Point {
  std::shared_ptr<Timeline> timeline;
  uint64_t position = 0;

  bool Reached() const { return timeline == nullptr || timeline->Done() >= position; }
  void Wait() const {
    if (timeline != nullptr) timeline->Wait(position);
  }
};

}  // namespace parkade::sim
