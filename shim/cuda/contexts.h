// Contexts: the CUDA contexts of this process that hooks have seen made.
#pragma once

#include <cuda.h>

#include <atomic>
#include <optional>
#include <vector>

#include "common/mutex.h"

namespace parkade::shim {

class Contexts {
 public:
  struct Entry {
    CUcontext context;
    int device;       // ordinal in the process
    uint64_t number;  // unique in the process: tells it from a later one at its address
  };

  // Any thread. Add is idempotent: a primary context is retained again and again. True when new.
  bool Add(CUcontext context, int device);
  void Remove(CUcontext context);
  // Whether it has been removed and not been added again: a thread on which it is current may not
  // know. Nothing may make it current any more, for the driver follows the dangling handle (580).
  bool IsGone(CUcontext context) const;
  // The one device that all contexts so far were on; none where there were several. One load.
  std::optional<int> only_device() const {
    const int device = only_device_.load(std::memory_order_relaxed);
    return device >= 0 ? std::optional<int>(device) : std::nullopt;
  }
  std::vector<Entry> List() const;
  // 0 when it is not known: never added, or removed since.
  uint64_t NumberOf(CUcontext context) const;

 private:
  mutable Mutex mu_;  // innermost
  std::vector<Entry> entries_ GUARDED_BY(mu_);
  uint64_t last_number_ GUARDED_BY(mu_) = 0;
  std::vector<CUcontext> gone_ GUARDED_BY(mu_);
  static constexpr int kNone = -1, kSeveral = -2;
  std::atomic<int> only_device_{kNone};  // or one of these
  std::atomic<bool> any_gone_{false};    // so that asking costs one load as long as there are none
};

}  // namespace parkade::shim
