// The calling thread's stack of contexts.
#pragma once

#include <vector>

#include "tests/sim/cuda_api.h"

namespace parkade::sim {

// Back is current; a nullptr there means none, as cuCtxSetCurrent(NULL) leaves it.
std::vector<CUcontext>& ContextStack();

}  // namespace parkade::sim
