// Reservation: free memory of a GPU that is kept for somebody; see Reservation in node.proto.
#pragma once

#include <cstdint>
#include <string>

#include "common/bytes.h"

namespace parkade::daemon {

struct Reservation {
  std::string id;
  std::string owner;  // Caller::Name
  std::string label;
  std::string gpu_uuid;
  Bytes bytes = 0;
  uint64_t until_ns = 0;     // CLOCK_MONOTONIC, which goes on from daemon to daemon; 0: no end
  int32_t pid = 0;           // ends with this process; 0: with none
  uint64_t start_ticks = 0;  // of that process
};

}  // namespace parkade::daemon
