// CudaError: a driver's result code as an Error.
#pragma once

#include "common/result.h"
#include "shim/cuda/driver.h"

namespace parkade::shim {

// The reason is the driver's name for the code ("CUDA_ERROR_ILLEGAL_ADDRESS"); out of memory is
// RESOURCE_EXHAUSTED with GPU_MEMORY, everything else INTERNAL. `format` says what was tried.
[[gnu::format(printf, 3, 4)]] Error CudaError(const Driver& driver, CUresult code,
                                              const char* format, ...);

}  // namespace parkade::shim
