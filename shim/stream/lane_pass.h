// Passages through the gate. LanePass: a lane's own passage through the gate, held while bytes of
// buckets are under way, so that a pause waits for the border of a bucket, and a paused process's
// store moves none.
#pragma once

#include "shim/pause/gate.h"

namespace parkade::shim {

// One thread.
class LanePass {
 public:
  ~LanePass() { Leave(); }
  // Waits while the gate is closed, without a limit: until the process runs again.
  void Enter() {
    if (!inside_) Gate::EnterWhenOpen();
    inside_ = true;
  }
  void Leave() {
    if (inside_) Gate::Leave();
    inside_ = false;
  }
  // A pause waits for this thread to leave.
  static bool Wanted() { return Gate::IsClosed(); }

 private:
  bool inside_ = false;
};

// WorkPass: the application's own thread, while it has the GPU do something for it in the shim.
class WorkPass {
 public:
  // Waits while the gate is closed. False when the work must not be done.
  WorkPass() : granted_(Gate::Enter()) {}
  ~WorkPass() {
    if (granted_) Gate::Leave();
  }
  WorkPass(const WorkPass&) = delete;
  WorkPass& operator=(const WorkPass&) = delete;
  explicit operator bool() const { return granted_; }

 private:
  const bool granted_;
};

}  // namespace parkade::shim
