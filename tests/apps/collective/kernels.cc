// The host functions behind the kernels.
#include "tests/apps/collective/kernels.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "tests/sim/host_kernel.h"

namespace {

using parkade::sim::HostKernel;
using parkade::sim::Launch;

constexpr uint64_t kVectorBytes = kWords * sizeof(uint64_t);

Job the_job;
std::atomic<bool> released{false};

void MeetOthers(const Launch& launch, uint64_t* sums, const uint64_t* words,
                uint32_t communicator) {
  if (!launch.Touch(sums, kVectorBytes) || !launch.Touch(words, kVectorBytes)) return;
  if (Meet(*the_job.board, the_job.groups[communicator], the_job.rank, words, sums)) return;
  fprintf(stderr, "collective: rank %u: not all ranks came to communicator %u\n", the_job.rank,
          communicator);
  _exit(3);
}

void Mix(const Launch& launch, uint64_t* state, uint64_t count, const uint64_t* sums) {
  if (!launch.Touch(state, count * sizeof *state) || !launch.Touch(sums, kVectorBytes)) return;
  for (uint64_t i = 0; i < count; ++i) {
    state[i] = state[i] * 0x9e3779b97f4a7c15 + (sums[i % kWords] ^ i);
  }
}

void Hold(const Launch&) { released.wait(false); }

}  // namespace

extern "C" SIM_EXPORT const SimKernel sim_kernel_meet = HostKernel<&MeetOthers>();
extern "C" SIM_EXPORT const SimKernel sim_kernel_mix = HostKernel<&Mix>();
extern "C" SIM_EXPORT const SimKernel sim_kernel_hold = HostKernel<&Hold>();

const char kKernels[] = "SIMK meet mix hold add_words checksum_words spin_ms";

void SetJob(const Job& job) { the_job = job; }

void Release() {
  released = true;
  released.notify_all();
}
