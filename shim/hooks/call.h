// Call: one hooked call as its handler sees it.
#pragma once

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
