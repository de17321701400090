// Messages about processes that take turns on a GPU: what one waits for, and that it will not come.
#pragma once

#include <cstdint>
#include <type_traits>

#include "proto/wire_header.h"

namespace parkade::wire {

// All that a process which takes turns waits for now; it takes the place of what it said before.
// Nothing: it waits no longer. The daemon may pause others for it, and resumes it where it is
// paused for a turn of others. The op_id is the shim's number of the message.
struct AskTurn {
  Header header;
  uint32_t work;  // 1: threads wait at its closed gate
  uint32_t zero;
  uint64_t bytes[kMaxDevices];  // that allocations found no room for, by ordinal in the process
};
static_assert(std::is_trivially_copyable_v<AskTurn> && sizeof(AskTurn) == 160);
template <>
inline constexpr Type kTypeOf<AskTurn> = Type::kAskTurn;

// What the AskTurn of that op_id and those before it asked for will not come.
struct NoTurn {
  Header header;
  uint32_t code;      // parkade::Code
  uint32_t again_ms;  // threads at the gate may ask again after it; 0: not in this pause
  char reason[32];    // NUL-padded, as of an error
  char message[208];
};
static_assert(std::is_trivially_copyable_v<NoTurn> && sizeof(NoTurn) == 272);
template <>
inline constexpr Type kTypeOf<NoTurn> = Type::kNoTurn;

}  // namespace parkade::wire
