// The calling thread's stack of contexts.
#pragma once

#include <cstddef>
#include <cstdlib>

#include "tests/sim/cuda_api.h"

namespace parkade::sim {

// Back is current; a nullptr there means none, as cuCtxSetCurrent(NULL) leaves it. Without a
// destructor: a program may call the driver in its own static ones, when those of threads have run.
class ThreadContexts {
 public:
  bool empty() const { return depth_ == 0; }
  CUcontext& back() { return contexts_[depth_ - 1]; }
  void push_back(CUcontext context) {
    if (depth_ == kDeepest) abort();  // no program pushes so many
    contexts_[depth_++] = context;
  }
  void pop_back() { --depth_; }

 private:
  static constexpr size_t kDeepest = 256;
  CUcontext contexts_[kDeepest];
  size_t depth_;
};

ThreadContexts& ContextStack();

}  // namespace parkade::sim
