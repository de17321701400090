// The list.
#include "shim/pause/context_lost.h"

#include <cuda.h>

namespace parkade::shim {

bool IsFault(int cuda) {
  switch (cuda) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return false;
  }
}

bool IsContextLost(int cuda) {
  return IsFault(cuda) || cuda == CUDA_ERROR_DEINITIALIZED || cuda == CUDA_ERROR_INVALID_CONTEXT ||
         cuda == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

Result<void> Explained(const Result<void>& result) {
  if (result.ok() || result.error().cuda != CUDA_ERROR_DEINITIALIZED) return result;
  Error e = MakeError(Code::kUnavailable, "PROCESS_ENDING",
                      "the process is ending: its driver has shut down");
  e.cuda = result.error().cuda;
  return e;
}

}  // namespace parkade::shim
