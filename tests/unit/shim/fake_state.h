// What the files of FakeDriver share.
#pragma once

#include "tests/unit/shim/fake_driver.h"

namespace parkade::shim {

extern FakeDriver* fake;  // the one that the driver's functions work on
extern thread_local std::vector<CUcontext> current_contexts;
extern thread_local CUstreamCaptureMode capture_mode;

constexpr Bytes kGranularity = 2_MiB;

// Contexts are numbers: device 0 is 0x1000, device 1 0x1001.
constexpr uintptr_t kFirstContext = 0x1000;
inline int DeviceOf(CUcontext context) {
  return int(reinterpret_cast<uintptr_t>(context) - kFirstContext);
}
inline void* Address(CUdeviceptr ptr) { return reinterpret_cast<void*>(ptr); }

// Each enters its file's functions.
void FillDeviceCalls(Driver& driver);
void FillMemoryCalls(Driver& driver);
void FillStreamCalls(Driver& driver);
void FillKernelCalls(Driver& driver);

}  // namespace parkade::shim
