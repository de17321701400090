// Turns a CUresult into an Error.
#include "shim/cuda/cuda_error.h"

#include <cstring>

namespace parkade::shim {

Error CudaError(const Driver& driver, CUresult code, const char* format, ...) {
  const char* name = nullptr;
  if (driver.get_error_name == nullptr || driver.get_error_name(code, &name) != CUDA_SUCCESS) {
    // Past the driver's exit handler it no longer knows names either.
    name = code == CUDA_ERROR_DEINITIALIZED ? "CUDA_ERROR_DEINITIALIZED" : "CUDA_ERROR_UNKNOWN";
  }
  Error e;
  e.code = Code::kInternal;
  e.reason = name;  // the driver's own constant
  e.cuda = int(code);
  if (code == CUDA_ERROR_OUT_OF_MEMORY) {
    e.code = Code::kResourceExhausted;
    e.reason = "GPU_MEMORY";
  }
  va_list args;
  va_start(args, format);
  vsnprintf(e.what, sizeof e.what, format, args);
  va_end(args);
  const size_t n = strlen(e.what);
  snprintf(e.what + n, sizeof e.what - n, ": %s (%d)", name, int(code));
  return e;
}

}  // namespace parkade::shim
