// Foreign memory: linear allocations that stay the driver's own, counted as what a pause leaves.
#pragma once

#include "shim/libc/loaded_object.h"
#include "shim/lifecycle.h"

namespace parkade::shim {

// Whether the code at `caller` belongs to a communication library (NCCL, NVSHMEM, UCX): such memory
// is shared with peers and network cards, and would not be freed by a pause. `loads`: now.
bool KeepsNativeMemory(const void* caller, const LoadCounts& loads);

// Counts native memory of the current device in the ledger, until it is forgotten. Any thread.
void NoteForeign(Parts& parts, CUdeviceptr ptr, size_t bytes);
void NoteForeign(Parts& parts, CUdeviceptr ptr, size_t bytes, int device);
// Nothing to do for a pointer that was not noted.
void ForgetForeign(Parts& parts, CUdeviceptr ptr);
// The same for every pointer in the range.
void ForgetForeignIn(Parts& parts, CUdeviceptr at, size_t bytes);

}  // namespace parkade::shim
