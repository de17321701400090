// Stores: those that the program has open, and what they are opened on; for lifecycle.
#pragma once

#include "shim/stream/step_engine.h"

namespace parkade::shim {

class Stores {
 public:
  // What stores are opened on, which is never destroyed. Null before the first context, in a forked
  // child until it makes its own, and where the shim steps aside.
  static void SetLive(const StepEngine::Surroundings* live);
  // In a forked child: lets go of the locks of its parent's stores, which it must not use.
  static void AbandonAfterFork();
};

}  // namespace parkade::shim
