// Faults: what SIM_FAULTS says shall go wrong.
#pragma once

#include <string>

#include "tests/sim/cuda_api.h"

namespace parkade::sim {

// Lets the faults meant for this call of `name` happen: waits, kills the process, or returns the
// code that the call must fail with. Looks at the file on every call. Any thread.
CUresult ApplyFaults(const std::string& name);

}  // namespace parkade::sim
