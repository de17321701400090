// Making and ending contexts, primary ones included.
#pragma once

#include "tests/sim/driver.h"

namespace parkade::sim {

// A new context that has paid its residue. OUT_OF_MEMORY when the GPU has no room for it.
CUresult OpenContext(int gpu, unsigned flags, CUcontext* handle);
// Waits for its work, frees its memory and forgets it.
CUresult CloseContext(CUcontext handle);

// The primary context of `gpu` if it is live, else nullptr.
CUcontext PrimaryContext(int gpu);

}  // namespace parkade::sim
