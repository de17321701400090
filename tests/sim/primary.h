// Making and ending contexts, primary ones included.
#pragma once

#include "tests/sim/driver.h"

namespace parkade::sim {

// A new context that has paid its residue. OUT_OF_MEMORY when the GPU has no room for it. A handle
// that is not nullptr gets the new context; the primary context of a GPU has one handle for good.
CUresult OpenContext(int gpu, unsigned flags, CUcontext* handle);
// Waits for its work, frees its memory and forgets it.
CUresult CloseContext(CUcontext handle);

// The GPU of a context that there was; handles are not used again.
std::optional<int> GpuOfDestroyed(CUcontext handle);

// Whether the handle is a GPU's primary context, live or not.
bool IsPrimary(CUcontext handle);

}  // namespace parkade::sim
