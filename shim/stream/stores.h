// Stores: those that the program has open, and what they are opened on; for lifecycle.
#pragma once

#include "shim/stream/step_engine.h"

namespace parkade::shim {

class Stores {
 public:
  // Null before the first context, in a forked child until it makes its own, and where the shim
  // steps aside. The object is never destroyed.
  static const StepEngine::Surroundings* Live();
  static void SetLive(const StepEngine::Surroundings* live);
  // In a forked child: lets go of the locks of its parent's stores, which it must not use.
  static void AbandonAfterFork();
};

}  // namespace parkade::shim
