// Messages about moving the backups of a process that stays paused.
#pragma once

#include <cstdint>
#include <type_traits>

#include "proto/wire_header.h"

namespace parkade::wire {

// Host memory that it passes bytes through, beside what it is granted: at most so much.
constexpr uint64_t kShiftStage = 64 << 20;

// Move backups between files and host memory; the process stays as it is. Only while it is out. To
// the host: blocks that lie in files alone come into host memory too, and keep their place in the
// file. To the disk: blocks in host memory whose policy was kAuto go to the files of the last
// Commit, and give their memory back. The Reply comes when all has moved, or all that there is room
// for, or as soon as there is another request (CANCELLED). What has moved by then has; each block
// is verified on its way, and one that is wrong is told of as by a Verify, and stays where it is.
// One to the disk that comes while something else is under way is CANCELLED at once.
struct Shift {
  Header header;
  uint64_t host_bytes;    // to the host: granted for these backups, in memory of the pool or new
  uint32_t to;            // Place of proto/ledger.h: kHost or kDisk
  uint32_t release_host;  // 1: to the disk, then give the host pool back, off the critical path
  uint32_t tag_count;     // 0..kMaxTags: those of these tags, in this order; 0: of every tag
  uint32_t zero;
  char tags[kMaxTags][32];  // NUL-padded
};
static_assert(std::is_trivially_copyable_v<Shift> && sizeof(Shift) == 560);
template <>
inline constexpr Type kTypeOf<Shift> = Type::kShift;

}  // namespace parkade::wire
