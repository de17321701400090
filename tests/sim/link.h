// Link: the throttled connection between a simulated GPU and the host.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/bytes.h"

namespace parkade::sim {

enum class Direction { kToDevice, kToHost };

// Each direction moves so many bytes a second, over all streams of the process. Any thread.
class Link {
 public:
  // Waits until `bytes` have passed at `bytes_per_s`; 0 is without limit.
  void Pass(Direction direction, Bytes bytes, uint64_t bytes_per_s);

 private:
  std::atomic<uint64_t> busy_until_ns_[2] = {0, 0};
};

}  // namespace parkade::sim
