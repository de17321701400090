// What the node and the control groups say about host memory.
#pragma once

#include <optional>
#include <string>

#include "common/bytes.h"

namespace parkade::daemon {

struct HostMemory {
  Bytes total = 0;
  Bytes available = 0;  // MemAvailable: free, plus what the kernel can take back without swapping
};
// Parses /proc/meminfo.
HostMemory ReadHostMemory(const std::string& proc = "/proc");

// How much more memory a process may use before its control group, or one above it, is full; page
// cache that can be dropped does not count as used. Empty: no limit. Reads v2 and v1.
std::optional<Bytes> CgroupHeadroom(int pid, const std::string& proc = "/proc",
                                    const std::string& cgroup = "/sys/fs/cgroup");

}  // namespace parkade::daemon
