// Layout of a scratch base directory, shared by whoever makes, fills or sweeps one.
//
//   <base>/parkade-v1/                     0755 or wider as the base, owned by the first to make it
//   <base>/parkade-v1/p<pid>-<24 hex>/     0700, owned by the process's user; the hex is random
//       owner                              one OwnerRecord: who this belongs to
//       lock                               flock()ed for as long as daemon or process holds it open
//       data.0                             preallocated backup bytes
//
// A directory is dead when its lock is free and its owner provably does not exist (another boot, or
// no such pid with that start time in that pid namespace). Nothing else is ever removed.
#pragma once

#include <cstdint>
#include <type_traits>

namespace parkade::wire {

constexpr char kScratchRoot[] = "parkade-v1";
constexpr char kScratchOwner[] = "owner";
constexpr char kScratchLock[] = "lock";
constexpr char kScratchData[] = "data.0";

constexpr uint32_t kOwnerMagic = 0x574f'4b50;  // "PKOW"

struct OwnerRecord {
  uint32_t magic;
  uint32_t version;  // 1
  int32_t pid;       // in the pid namespace below
  uint32_t uid;
  uint64_t start_ticks;    // field 22 of /proc/<pid>/stat
  uint64_t pid_namespace;  // inode of /proc/<pid>/ns/pid
  char boot_id[40];        // /proc/sys/kernel/random/boot_id, NUL-padded
};
static_assert(std::is_trivially_copyable_v<OwnerRecord> && sizeof(OwnerRecord) == 72);

}  // namespace parkade::wire
