// The time of day, for what people and other programs are told.
#pragma once

#include <time.h>

#include <cstdint>

namespace parkade::daemon {

// CLOCK_REALTIME
inline uint64_t WallClockNs() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000 + uint64_t(t.tv_nsec);
}

}  // namespace parkade::daemon
