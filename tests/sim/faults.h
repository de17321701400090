// Faults: what SIM_FAULTS says shall go wrong.
#pragma once

#include <optional>
#include <string>

#include "tests/sim/cuda_api.h"

namespace parkade::sim {

// Lets the faults meant for this call of `name` happen: waits, kills the process, or returns the
// code that the call must answer without doing anything. Looks at the file on every call. Any
// thread.
std::optional<CUresult> ApplyFaults(const std::string& name);

}  // namespace parkade::sim
