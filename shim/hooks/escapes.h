// Escapes: files of this process whose driver calls do not pass through the shim.
#pragma once

#include "shim/heap/ledger_writer.h"

namespace parkade::shim {

// Looks through the bindings of every loaded file and calls `report(arg, path, symbol)` for each
// that has a driver function, dlsym or dlvsym bound past the shim, which RTLD_DEEPBIND does: once a
// file, with the first such symbol. Any thread once the driver has been found; some milliseconds;
// holds the loader's list lock, so `report` must not load or unload.
void FindEscapes(void (*report)(void* arg, const char* path, const char* symbol), void* arg);

// Says every escape in the ledger.
void WarnOfEscapes(LedgerWriter& ledger);

}  // namespace parkade::shim
