// Tells refusals of the thread from those of the arguments, and memory from the room beside it.
#include "shim/hooks/native_answers.h"

#include "shim/pause/gate.h"

namespace parkade::shim {

bool IsOfTheThread(CUresult result) {
  switch (result) {
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      return true;
    default:
      return false;
  }
}

bool ThreadMayBeRefused(const Parts& parts) {
  if (Gate::Capturing()) return true;
  CUcontext current = nullptr;
  return parts.driver.ctx_get_current(&current) != CUDA_SUCCESS || current == nullptr ||
         parts.contexts.IsGone(current);
}

Place PlaceOf(const Parts& parts, CUdeviceptr ptr) {
  auto found = parts.heap.Find(ptr);
  if (!found) found = parts.imports.Find(ptr);
  if (found) return {Place::Kind::kOurs, *found};
  const bool nothing = parts.heap.Owns(ptr) || parts.imports.Owns(ptr);
  return {nothing ? Place::Kind::kNothing : Place::Kind::kOther, {}};
}

}  // namespace parkade::shim
