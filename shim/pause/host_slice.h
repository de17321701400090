// Host memory for one slice of the pool: mapped on huge pages, every page present.
#pragma once

#include "common/bytes.h"
#include "common/result.h"

namespace parkade::shim {

// Maps `bytes` (a multiple of 2 MiB), aligned to 2 MiB, kept from forked children, and makes every
// page present on the calling thread. RESOURCE_EXHAUSTED HOST_MEMORY.
Result<char*> MapSlice(Bytes bytes);
void UnmapSlice(char* memory, Bytes bytes);

// Processors that this thread may run on.
unsigned UsableCores();

}  // namespace parkade::shim
