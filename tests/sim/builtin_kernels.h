// Kernels that every module on the simulated GPU has, whatever its image.
#pragma once

#include <string_view>

#include "tests/sim/host_kernel.h"

namespace parkade::sim {

// nullptr when `name` is none of them. README.md has their parameters and what they compute.
const SimKernel* BuiltinKernel(std::string_view name);

}  // namespace parkade::sim
