// The file that SIM_COUNT_FILE names: how often this process has called each driver function.
#pragma once

#include <cstdint>

namespace parkade::sim {

// One record per base name, in the order of first calls; records behind the last are zero. The
// simulated driver writes it through a mapping, so a reader sees every call at once, also of a
// process that was killed. "%p" in the path stands for the pid.
struct CallCount {
  char name[56];  // NUL-padded
  uint64_t calls;
};
static_assert(sizeof(CallCount) == 64);

constexpr int kMaxCallCounts = 1024;

}  // namespace parkade::sim
