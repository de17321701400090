// Contexts: the CUDA contexts of this process that hooks have seen made.
#pragma once

#include <cuda.h>

#include <atomic>
#include <vector>

#include "common/mutex.h"

namespace parkade::shim {

class Contexts {
 public:
  struct Entry {
    CUcontext context;
    int device;  // ordinal in the process
  };

  // Any thread. Add is idempotent: a primary context is retained again and again. True when new.
  bool Add(CUcontext context, int device);
  void Remove(CUcontext context);
  // Whether it has been removed and not been added again: a thread on which it is current may not
  // know. Nothing may make it current any more, for the driver follows the dangling handle (580).
  bool IsGone(CUcontext context) const;
  // Whether it has been added, and not removed since.
  bool Knows(CUcontext context) const;
  std::vector<Entry> List() const;

 private:
  mutable Mutex mu_;  // innermost
  std::vector<Entry> entries_ GUARDED_BY(mu_);
  std::vector<CUcontext> gone_ GUARDED_BY(mu_);
  std::atomic<bool> any_gone_{false};  // so that asking costs one load as long as there are none
};

}  // namespace parkade::shim
