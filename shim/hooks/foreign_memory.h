// Whose allocations stay the driver's own: communication libraries', and in torch_memory_saver's
// place those of libraries with a CUDA runtime of their own; told by the caller's file.
#pragma once

#include "shim/heap/ledger_writer.h"
#include "shim/libc/loaded_object.h"

namespace parkade::shim {

// Whether the code at `caller` belongs to a communication library (NCCL, NVSHMEM, UCX): such memory
// is shared with peers and network cards, and would not be freed by a pause. `loads`: now.
bool KeepsNativeMemory(const void* caller, const LoadCounts& loads);

// Whether it belongs to a library of NVIDIA's that keeps state in GPU memory (cuBLAS, cuDNN and
// their kin): torch_memory_saver does not see what they allocate, also inside a region, and without
// a backup they would not survive a pause. Looks through the loaded files.
bool KeepsStateInMemory(const void* caller);

// Says once in the ledger, where NCCL is in the process, which switches keep it from registering
// memory of the application's by itself. Reads the environment; application threads.
void AdviseOnNccl(LedgerWriter& ledger);

}  // namespace parkade::shim
