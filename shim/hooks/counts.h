// Counts: what passes the hooks without being understood, for the ledger.
#pragma once

#include <cstdint>

#include "shim/hooks/entries.h"

namespace parkade::shim {

// The application was given the function of libcuda called `symbol`, which the shim does not know;
// names of graphics interop are no gap and not counted. Any thread, before the first context too.
void CountUnhookedName(const char* symbol);
uint64_t UnhookedNames();

// Successful calls of an entry with the policy "track".
void CountTrackedCall(Entry entry);
uint64_t TrackedCalls(Entry entry);

}  // namespace parkade::shim
