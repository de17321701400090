// CaptureKey: what the gate knows a capturing stream by.
#pragma once

#include <cuda.h>

namespace parkade::shim {

// Each thread has its own per-thread default stream under one handle, and null means that one too
// where a capture is possible, so a mark of the calling thread's own stands for both.
CUstream CaptureKey(CUstream stream);

}  // namespace parkade::shim
