// Keeps copies to the rate of the link.
#include "tests/sim/link.h"

#include <time.h>

#include <algorithm>

#include "common/deadline.h"

namespace parkade::sim {

void Link::Pass(Direction direction, Bytes bytes, uint64_t bytes_per_s) {
  if (bytes_per_s == 0) return;
  const auto cost_ns = uint64_t(double(bytes) * 1e9 / double(bytes_per_s));
  auto& busy = busy_until_ns_[direction == Direction::kToHost];
  uint64_t was = busy;
  uint64_t until = 0;
  do {
    until = std::max(was, MonotonicNs()) + cost_ns;
  } while (!busy.compare_exchange_weak(was, until));
  const timespec at = {time_t(until / 1'000'000'000), long(until % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) != 0) {
  }
}

}  // namespace parkade::sim
