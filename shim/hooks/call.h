// Call: one hooked call as its handler sees it.
#pragma once

// cuda.h with every exported name declared as itself, old versions and per-thread forms included.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>
#include <cudaProfiler.h>

namespace parkade::shim {

// `real` is the driver's function of the very name that was called; `caller` the address that the
// call returns to, which tells libraries apart.
template <typename F>
struct Call {
  F* real;
  const void* caller;
};

}  // namespace parkade::shim
