// Reads the small text files of /proc and /sys.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace parkade::daemon {

// The whole file, `most` bytes at most; empty when it cannot be read.
std::string ReadProcFile(const std::string& path, size_t most = 64 << 10);

// A process's soft limit, by its name in /proc/<pid>/limits such as "Max file size". Empty:
// unlimited, or not visible. prlimit() would need CAP_SYS_RESOURCE for another user's process.
std::optional<uint64_t> ReadLimit(pid_t pid, std::string_view name);

}  // namespace parkade::daemon
