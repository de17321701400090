// LogLimit: keeps those who misbehave on purpose from filling the log.
#pragma once

#include <cstdint>

#include "common/deadline.h"
#include "common/log.h"

namespace parkade::daemon {

// At most 10 lines in 10 s, then how many there were beyond. One thread.
class LogLimit {
 public:
  // Whether one more line may be written.
  bool Allows() {
    if (window_.Passed()) {
      if (held_back_ > 0) {
        Log(LogLevel::kWarning, "%llu more lines like those before were held back",
            static_cast<unsigned long long>(held_back_));
      }
      window_ = Deadline::InMs(kWindowMs);
      lines_ = held_back_ = 0;
    }
    if (lines_ < kLines) return ++lines_, true;
    ++held_back_;
    return false;
  }

 private:
  static constexpr uint64_t kLines = 10;
  static constexpr uint64_t kWindowMs = 10'000;

  Deadline window_ = Deadline::InMs(0);
  uint64_t lines_ = 0;
  uint64_t held_back_ = 0;
};

}  // namespace parkade::daemon
