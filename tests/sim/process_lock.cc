// A word of the shared table that every call looks at, and waits on.
#include "tests/sim/process_lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace parkade::sim {
namespace {

std::atomic<Account::Checkpoint*> watched{nullptr};
thread_local int depth = 0;

// A process that is killed wakes nobody: who waits looks again this often.
constexpr uint64_t kLookMs = 50;

// Between processes, unlike those of common/futex.h.
void SharedWait(const std::atomic<uint32_t>& word, uint32_t expected, uint64_t ms) {
  const timespec time{time_t(ms / 1000), long(ms % 1000 * 1'000'000)};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &time, nullptr, 0);
}

void SharedWakeAll(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Leave(Account::Checkpoint& own) {
  --own.calls;
  if (own.state == CU_PROCESS_STATE_RUNNING) return;
  ++own.calls_done;
  SharedWakeAll(own.calls_done);
}

}  // namespace

void WatchCheckpoint(Account::Checkpoint* own) { watched = own; }

InsideDriver::InsideDriver() {
  Account::Checkpoint* const own = watched;
  if (own == nullptr || depth++ > 0) return;
  // First in, then a look: who locks does the same the other way round.
  for (;;) {
    ++own->calls;
    const uint32_t state = own->state;
    if (state == CU_PROCESS_STATE_RUNNING) return;
    Leave(*own);
    SharedWait(own->state, state, kLookMs);
  }
}

InsideDriver::~InsideDriver() {
  Account::Checkpoint* const own = watched;
  if (own != nullptr && --depth == 0) Leave(*own);
}

CUresult LockProcess(Account::Checkpoint& process, Deadline by) {
  uint32_t state = CU_PROCESS_STATE_RUNNING;
  if (!process.state.compare_exchange_strong(state, CU_PROCESS_STATE_LOCKED)) {
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  for (;;) {
    const uint32_t seen = process.calls_done;
    if (process.calls == 0) return CUDA_SUCCESS;
    if (by.Passed()) break;
    SharedWait(process.calls_done, seen, std::min<uint64_t>(kLookMs, uint64_t(by.LeftMs())));
  }
  UnlockProcess(process);
  return CUDA_ERROR_NOT_READY;
}

CUresult UnlockProcess(Account::Checkpoint& process) {
  uint32_t state = CU_PROCESS_STATE_LOCKED;
  if (!process.state.compare_exchange_strong(state, CU_PROCESS_STATE_RUNNING)) {
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  SharedWakeAll(process.state);
  return CUDA_SUCCESS;
}

}  // namespace parkade::sim
