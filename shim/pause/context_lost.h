// Which errors of the driver end a context for good, and what the caller hears of them.
#pragma once

#include "common/result.h"

namespace parkade::shim {

// The GPU's work has failed: whatever the process does in the context fails with the same, until it
// ends.
bool IsFault(int cuda);

// After one of these the driver refuses everything in the context, for good. DEINITIALIZED: the
// process is in exit(), past the driver's own handler.
bool IsContextLost(int cuda);

// What the caller hears of a process that ends by itself is not a fault of the driver.
Result<void> Explained(const Result<void>& result);

}  // namespace parkade::shim
