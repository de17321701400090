// ScopedContext and ScopedRelaxedCapture: what a thread of the application must find unchanged
// after the shim has used the driver on it.
#pragma once

#include "shim/cuda/driver.h"

namespace parkade::shim {

// Makes `context` current and puts the caller's context back at the end. status() is what the
// driver said to the push; on an error nothing is current that was not before.
class ScopedContext {
 public:
  ScopedContext(const Driver& driver, CUcontext context)
      : driver_(driver), status_(driver.ctx_push_current(context)) {}
  ~ScopedContext() {
    CUcontext popped = nullptr;
    if (status_ == CUDA_SUCCESS) driver_.ctx_pop_current(&popped);
  }
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;

  CUresult status() const { return status_; }

 private:
  const Driver& driver_;
  CUresult status_;
};

// The thread's calls neither fail because of a capture on another thread nor invalidate it, but
// for cuCtxSynchronize and cuCtxRecordEvent, which no mode protects (driver 580).
class ScopedRelaxedCapture {
 public:
  explicit ScopedRelaxedCapture(const Driver& driver) : driver_(driver) {
    exchanged_ = driver_.capture_mode_exchange(&mode_) == CUDA_SUCCESS;
  }
  ~ScopedRelaxedCapture() {
    if (exchanged_) driver_.capture_mode_exchange(&mode_);
  }
  ScopedRelaxedCapture(const ScopedRelaxedCapture&) = delete;
  ScopedRelaxedCapture& operator=(const ScopedRelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged_ = false;
};

}  // namespace parkade::shim
