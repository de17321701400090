// ReleasePiece: takes one piece's memory away from its range and gives it to the driver.
#pragma once

#include "common/result.h"
#include "shim/cuda/driver.h"
#include "shim/heap/device_memory.h"
#include "shim/heap/range.h"

namespace parkade::shim {

// Unmaps the piece wherever it is mapped, and releases it; its handle is 0 then. On error it is
// mapped as before, with its bytes, unless the driver refuses even that: then it is out, and the
// handle is lost to the driver.
Result<void> ReleasePiece(const Driver& driver, DeviceMemory& memory, const Range& range,
                          Piece& piece);

}  // namespace parkade::shim
