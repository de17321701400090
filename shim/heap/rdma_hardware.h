// RdmaHardware: whether something on this machine could register GPU memory.
#pragma once

#include <string>

namespace parkade::shim {

// An RDMA device (libibverbs finds them in the same place), or the driver of gdrcopy or of
// GPUDirect Storage. Handles that can be registered cost an eighth more to make and to release (512
// MiB on an H200: 282 us for the whole cycle, 250 us without), which nobody should pay for nothing.
// `root` stands for "/" in tests. Any thread; a few system calls.
bool HasRdmaHardware(const std::string& root = "");

}  // namespace parkade::shim
