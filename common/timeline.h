// Timeline: where the time of one operation goes, for one line of the log.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/deadline.h"

namespace parkade {

// One thread.
class Timeline {
 public:
  explicit Timeline(uint64_t start_ns = MonotonicNs()) : start_ns_(start_ns), last_ns_(start_ns) {}

  // What has gone by since the last call, or the start, was `step`: a name in static storage. Times
  // of one name add up. More than kMostSteps names count as the last one.
  void Ended(const char* step);
  // At level debug: "WHAT: 163.2 ms = plan 0.4 + prepare 1.3 + ...".
  void Log(const char* what) const;

 private:
  static constexpr size_t kMostSteps = 12;
  struct Step {
    const char* name;
    uint64_t ns;
  };

  const uint64_t start_ns_;
  uint64_t last_ns_;
  std::array<Step, kMostSteps> steps_{};
  size_t count_ = 0;
};

}  // namespace parkade
