// Wants: allocations that found no room, on their way to the daemon, which knows who holds the
// memory.
#pragma once

#include <vector>

#include "common/bytes.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "common/result.h"

namespace parkade::shim {

class Wants {
 public:
  struct Want {
    uint64_t event;  // its number in the ledger
    int device;
    Bytes bytes;
  };

  // Makes the descriptor below; before anything else.
  Result<void> Init();
  // Application threads; never waits. Of more than a few at once the first are kept.
  void Add(const Want& want);
  // Agent's thread. An eventfd, readable when Take has something.
  int fd() const { return fd_.get(); }
  std::vector<Want> Take();

  // In a forked child; nothing else of this object may be used there.
  void AbandonAfterFork() { fd_.Reset(); }

 private:
  static constexpr size_t kMost = 4;

  Fd fd_;
  Mutex mu_;  // innermost
  std::vector<Want> wants_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
