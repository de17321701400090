// TurnAsker: what a process that takes turns tells the daemon that it waits for, and when.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/wire_turn.h"
#include "shim/heap/turn_waits.h"

namespace parkade::shim {

// Agent thread.
class TurnAsker {
 public:
  explicit TurnAsker(TurnWaits& waits) : waits_(waits) {}  // which outlives it

  // Another daemon, which has heard nothing yet.
  void Joined();
  void Left() { waits_.SetHeard(false); }

  // What is to be said now; empty: nothing new. `at_gate`: threads wait at the closed gate of a
  // pause in force.
  std::optional<wire::AskTurn> Due(bool at_gate, uint64_t now_ns);
  // The daemon's answer. Whether allocations wait in vain.
  bool Refused(const wire::NoTurn& no, uint64_t now_ns);

 private:
  TurnWaits& waits_;
  wire::AskTurn last_ = wire::Make<wire::AskTurn>();  // that was said
  uint64_t number_ = 0;                               // of it, and of the reading
  bool work_refused_ = false;
  uint64_t ask_again_ns_ = 0;  // where it was; 0: not in this pause
};

}  // namespace parkade::shim
