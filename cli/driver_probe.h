// DriverProbe: what the CUDA driver answers to a process that only asks, without a context.
#pragma once

#include <cstdint>
#include <type_traits>

#include "absl/time/time.h"

namespace parkade::cli {

// Crosses a pipe. Attributes are the numbers of GPUs that have them.
struct DriverFacts {
  uint32_t answered = 0;  // 0: not within the time
  uint32_t loaded = 0;    // libcuda.so.1 is there, with the functions that are needed
  int32_t init = 0;       // CUresult of cuInit
  int32_t version = 0;    // 12040 is CUDA 12.4
  int32_t gpus = 0;
  int32_t virtual_memory = 0;  // cuMemCreate, cuMemMap
  int32_t exportable = 0;      // its memory as a POSIX file descriptor, for CUDA IPC
  int32_t rdma = 0;            // its memory registered by network cards
};
static_assert(std::is_trivially_copyable_v<DriverFacts> && sizeof(DriverFacts) == 32);

// Asks in a child process: a driver that hangs must not hold the command line up. Blocks for
// `longest` at most; no memory of a GPU is used. The caller has no other threads that matter.
DriverFacts AskDriver(absl::Duration longest);

}  // namespace parkade::cli
