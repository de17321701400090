// What the node, the control groups and a process's limits say about host memory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "daemon/mount_info.h"

namespace parkade::daemon {

struct HostMemory {
  Bytes total = 0;
  Bytes available = 0;  // MemAvailable: free, plus what the kernel can take back without swapping
};
// Parses meminfo.
HostMemory ReadHostMemory(const std::string& proc = "/proc");

// A control group with a limit on memory.
struct MemoryGroup {
  std::string path;  // of its directory; one group has one path, whichever process it is found by
  Bytes free = 0;    // before it is full; page cache that can be dropped does not count as used
};
// The groups with a limit that a process's memory counts to: its own and those above it, v2 and v1.
// Of another container's cgroup namespace that cannot be seen from here nothing is known. `mounts`:
// all of `proc`.
std::vector<MemoryGroup> MemoryGroupsOf(int pid, std::span<const MountInfo> mounts,
                                        const std::string& proc = "/proc");

// How much memory the process may lock; empty: as much as it likes, or it is not visible.
std::optional<Bytes> LockableBytes(int pid);

}  // namespace parkade::daemon
