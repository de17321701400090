// The kernels of collective, as host functions of the simulated GPU: README.md of tests/sim says
// how it finds them. Their parameters, by name:
//
//   meet   u64* sums, const u64* words, u32 communicator: one collective (board.h)
//   mix    u64* state, u64 count, const u64* sums: state[i] depends on itself and on sums[i %
//   kWords] hold   none: runs until Release
#pragma once

#include "tests/apps/collective/board.h"

// What `meet` works on, before the first launch: the board, this rank, and its groups by
// communicator.
struct Job {
  Board* board;
  uint32_t rank;
  Group groups[kMaxCommunicators];
};
void SetJob(const Job& job);

// Ends every `hold` of this process, running or to come. Any thread.
void Release();

// For cuModuleLoadData.
extern const char kKernels[];
