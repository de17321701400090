// Reads the small text files of /proc and /sys.
#pragma once

#include <string>

namespace parkade::daemon {

// The whole file, 64 KiB at most; empty when it cannot be read.
std::string ReadProcFile(const std::string& path);

}  // namespace parkade::daemon
