// Streams: the streams of this process that hooks have seen made, so that a message can name those
// that are busy.
#pragma once

#include <cuda.h>

#include <optional>
#include <vector>

#include "common/mutex.h"

namespace parkade::shim {

class Streams {
 public:
  // Any thread. A stream goes with its context.
  void Add(CUstream stream, CUcontext context);
  // The context that it had, if it was there.
  std::optional<CUcontext> Remove(CUstream stream);
  void RemoveAll(CUcontext context);
  std::vector<CUstream> List(CUcontext context) const;

 private:
  struct Entry {
    CUstream stream;
    CUcontext context;
  };
  mutable Mutex mu_;  // innermost
  std::vector<Entry> entries_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
