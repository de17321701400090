// Reads the small text files of /proc and /sys.
#pragma once

#include <string>

namespace parkade::daemon {

// The whole file, `most` bytes at most; empty when it cannot be read.
std::string ReadProcFile(const std::string& path, size_t most = 64 << 10);

}  // namespace parkade::daemon
