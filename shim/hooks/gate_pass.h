// GatePass: one thread's passage through the gate, around a driver call that submits work.
#pragma once

namespace parkade::shim {

// Waits while the gate is closed; the gate cannot close again before the pass ends.
class GatePass {
 public:
  GatePass() {}
  ~GatePass() {}
  GatePass(const GatePass&) = delete;
  GatePass& operator=(const GatePass&) = delete;
};

}  // namespace parkade::shim
