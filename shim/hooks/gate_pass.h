// GatePass: one thread's passage through the gate, around a driver call that submits work.
#pragma once

#include "shim/pause/gate.h"

namespace parkade::shim {

// Waits while the gate is closed; it cannot close while the pass lasts. Passes nest.
class GatePass {
 public:
  GatePass() { Gate::Enter(); }
  ~GatePass() { Gate::Leave(); }
  GatePass(const GatePass&) = delete;
  GatePass& operator=(const GatePass&) = delete;
};

}  // namespace parkade::shim
