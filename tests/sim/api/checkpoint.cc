// cuCheckpointProcess*: the driver's own checkpoint of a process, called from another one. What it
// holds leaves the account; its bytes stay where the simulation has them.
#include "tests/sim/driver.h"
#include "tests/sim/process_lock.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

// A call of the checkpoint: never stopped by it, and about a process of the node.
template <CallName kName, typename Body>
CUresult CallAbout(int pid, Body&& body) {
  return CallAnyTime<kName>([&] {
    if (!Initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    Account::Checkpoint* const process = Sim().account.Of(pid);
    return process == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*process);
  });
}

}  // namespace

CUresult cuCheckpointProcessGetState(int pid, CUprocessState* state) {
  return CallAbout<"cuCheckpointProcessGetState">(pid, [&](Account::Checkpoint& process) {
    if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *state = CUprocessState(process.state.load());
    return CUDA_SUCCESS;
  });
}

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int* tid) {
  return CallAbout<"cuCheckpointProcessGetRestoreThreadId">(pid, [&](Account::Checkpoint&) {
    if (tid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *tid = pid;
    return CUDA_SUCCESS;
  });
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs* args) {
  return CallAbout<"cuCheckpointProcessLock">(pid, [&](Account::Checkpoint& process) {
    const unsigned timeout_ms = args == nullptr ? 0 : args->timeoutMs;
    return LockProcess(process, timeout_ms == 0 ? Deadline::Never() : Deadline::InMs(timeout_ms));
  });
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs*) {
  return CallAbout<"cuCheckpointProcessCheckpoint">(pid, [&](Account::Checkpoint& process) {
    if (process.state != CU_PROCESS_STATE_LOCKED) return CUDA_ERROR_ILLEGAL_STATE;
    if (Sim().account.Shares(pid)) return CUDA_ERROR_NOT_SUPPORTED;
    if (Sim().settings.checkpoint_breaks) {
      process.state = CU_PROCESS_STATE_FAILED;
      return CUDA_ERROR_UNKNOWN;
    }
    Sim().account.Park(pid);
    process.state = CU_PROCESS_STATE_CHECKPOINTED;
    return CUDA_SUCCESS;
  });
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs*) {
  return CallAbout<"cuCheckpointProcessRestore">(pid, [&](Account::Checkpoint& process) {
    if (process.state != CU_PROCESS_STATE_CHECKPOINTED) return CUDA_ERROR_ILLEGAL_STATE;
    if (!Sim().account.Unpark(pid, Sim().settings.gpu_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    process.state = CU_PROCESS_STATE_LOCKED;
    return CUDA_SUCCESS;
  });
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs*) {
  return CallAbout<"cuCheckpointProcessUnlock">(pid, UnlockProcess);
}
