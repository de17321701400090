// BusyStreams: which streams of a context still have work, for the message of a drain that failed.
#pragma once

#include <string>
#include <vector>

#include "common/deadline.h"
#include "common/result.h"
#include "shim/cuda/contexts.h"
#include "shim/cuda/driver.h"

namespace parkade::shim {

// Asks each of `streams` and the legacy default stream, on a thread of its own, since a query may
// hang behind a thread that hangs in the driver; such a stream counts as busy. The gate is closed:
// no stream is destroyed meanwhile and nothing captures. Waits until `by` at most; no query begins
// after it has returned. `driver` outlives the process's last query.
std::vector<CUstream> BusyStreams(const Driver& driver, CUcontext context,
                                  std::vector<CUstream> streams, Deadline by);

// "stream 0x7f.., stream 0x7f.. and 3 more", "the default stream", or "a stream that no hook saw".
std::string NameStreams(const std::vector<CUstream>& streams);

}  // namespace parkade::shim
