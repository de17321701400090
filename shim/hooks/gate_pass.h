// GatePass: one thread's passage through the gate, around a driver call that submits work.
#pragma once

#include <cuda.h>

#include "shim/pause/gate.h"

namespace parkade::shim {

// What a call gets whose pass was refused: "the system is not yet ready to start CUDA work".
inline constexpr CUresult kNoPass = CUDA_ERROR_SYSTEM_NOT_READY;

// Waits while the gate is closed; it cannot close while the pass lasts. Passes nest. False when the
// call must not be made and fails with kNoPass.
class GatePass {
 public:
  [[gnu::always_inline]] explicit GatePass(Gate::Call call = Gate::Call::kWork)
      : granted_(Gate::Enter(call)) {}
  [[gnu::always_inline]] ~GatePass() {
    if (granted_) Gate::Leave();
  }
  GatePass(const GatePass&) = delete;
  GatePass& operator=(const GatePass&) = delete;
  explicit operator bool() const { return granted_; }

 private:
  const bool granted_;
};

}  // namespace parkade::shim
