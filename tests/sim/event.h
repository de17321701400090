// Event: the last place at which it was recorded.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "common/mutex.h"
#include "tests/sim/capture.h"
#include "tests/sim/context.h"
#include "tests/sim/timeline.h"

namespace parkade::sim {

struct Event {
  explicit Event(Context& event_context, unsigned event_flags)
      : context(event_context), flags(event_flags) {}

  struct Recording {
    Point point;             // no timeline: never recorded, which counts as reached
    CapturedPoint captured;  // recorded in a capture instead
    std::shared_ptr<std::atomic<uint64_t>> time_ns;
  };
  Recording Last() {
    MutexLock lock(mu_);
    return last_;
  }
  void Record(Recording recording) {
    MutexLock lock(mu_);
    last_ = std::move(recording);
  }

  Context& context;
  const unsigned flags;

 private:
  Mutex mu_;
  Recording last_ GUARDED_BY(mu_);
};

}  // namespace parkade::sim
