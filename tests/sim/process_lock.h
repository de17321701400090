// ProcessLock: how the driver's checkpoint of a process stops its calls, from another process.
#pragma once

#include "common/deadline.h"
#include "tests/sim/account.h"
#include "tests/sim/cuda_api.h"

namespace parkade::sim {

// A call of this process is inside the driver while one of these lives. Waits while the process is
// not RUNNING; a thread that is inside already does not.
class InsideDriver {
 public:
  InsideDriver();
  ~InsideDriver();
  InsideDriver(const InsideDriver&) = delete;
  InsideDriver& operator=(const InsideDriver&) = delete;
};

// From now on InsideDriver looks at this; null before cuInit and in a forked child.
void WatchCheckpoint(Account::Checkpoint* own);

// Stops a process that is RUNNING and waits until none of its calls is inside: NOT_READY past `by`,
// and it is RUNNING again. ILLEGAL_STATE.
CUresult LockProcess(Account::Checkpoint& process, Deadline by);
// RUNNING again, from LOCKED. ILLEGAL_STATE.
CUresult UnlockProcess(Account::Checkpoint& process);

}  // namespace parkade::sim
