// OrderEviction: decides, before anything moves, which range goes where and whether the grants
// suffice. A pure function.
#pragma once

#include <span>
#include <vector>

#include "common/result.h"
#include "shim/heap/range.h"
#include "shim/pause/eviction_plan.h"

namespace parkade::shim {

struct RangeMove {
  Range* range;
  wire::Policy policy;
  Bytes live_bytes;
  Bytes host_bytes;  // of the live bytes, the first so many go to host memory; the rest to files
};

struct EvictionOrder {
  // In the order in which they are to move. What is discarded comes last: it cannot be undone.
  std::vector<RangeMove> moves;
  std::vector<Range*> kept;
  Bytes host_bytes = 0;
  Bytes disk_bytes = 0;
  Bytes discarded_bytes = 0;
  Bytes kept_bytes = 0;
};

// RESOURCE_EXHAUSTED HOST_MEMORY or DISK_SPACE when a grant does not suffice; INVALID_ARGUMENT
// DISCARD_ALL when bytes would be discarded without their tag being named.
Result<EvictionOrder> OrderEviction(std::span<Range* const> ranges, const EvictionPlan& plan,
                                    Bytes file_bytes);

Bytes LiveBytes(const Range& range);

}  // namespace parkade::shim
