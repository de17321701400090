// The names of foreign memory, and what would avoid each kind.
#pragma once

#include "proto/control.pb.h"
#include "proto/ledger.h"

namespace parkade::daemon {

// Adds one entry for each kind that there is any of.
void WriteForeign(const wire::LedgerForeign& in, v1::ProcessDevice* out);

}  // namespace parkade::daemon
