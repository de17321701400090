// Host memory for the pool: mapped on huge pages, and made present.
#pragma once

#include "common/bytes.h"
#include "common/result.h"

namespace parkade::shim {

// Maps `bytes` (a multiple of 2 MiB), aligned to 2 MiB and kept from forked children; no page is
// present yet. Parts of it may be unmapped one by one. RESOURCE_EXHAUSTED HOST_MEMORY, or MEMLOCK
// where the application locks all that it maps (mlockall) and may not lock so much.
Result<char*> MapPages(Bytes bytes);
void UnmapPages(char* memory, Bytes bytes);
// Prefers memory of that NUMA node for pages that are not present yet; where it has none left,
// others do. An error, which changes nothing: containers often refuse it.
Result<void> PreferNode(char* memory, Bytes bytes, int node);

// Makes every page present. Several threads fill parts of one mapping at ten times the rate at
// which each would map and fill its own: mapping stops everybody else's page faults
// (docs/benchmarks.md).
void TouchPages(char* memory, Bytes bytes);

// Processors that this thread may run on.
unsigned UsableCores();

}  // namespace parkade::shim
