// Contexts: the CUDA contexts of this process that hooks have seen made.
#pragma once

#include <cuda.h>

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
  std::vector<Entry> List() const;

 private:
  mutable Mutex mu_;  // innermost
  std::vector<Entry> entries_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
