// Escapes: files of this process whose driver calls do not pass through the shim.
#pragma once

#include <cstdint>

#include "shim/heap/ledger_writer.h"
#include "shim/libc/loaded_object.h"

namespace parkade::shim {

// Looks through the bindings of every loaded file and calls `report(arg, path, symbol)` for each
// that has a driver function, dlsym or dlvsym bound past the shim, which RTLD_DEEPBIND does: once a
// file, with the first such symbol. A second libcuda, as a copy of the first is, comes with null
// for the symbol. Leaves out the first `skip` files of the loader's list, and returns how many it
// has. Any thread once the driver has been found; some milliseconds; holds the loader's list lock,
// so `report` must not load or unload.
uint64_t FindEscapes(void (*report)(void* arg, const char* path, const char* symbol), void* arg,
                     uint64_t skip = 0);

// Says in the ledger which files escape among those that came since the last call; next to nothing
// when none came. `now`: what the loader has loaded. Any thread.
void WarnOfNewEscapes(LedgerWriter& ledger, const LoadCounts& now);

}  // namespace parkade::shim
