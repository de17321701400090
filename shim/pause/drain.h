// Drain: waits until the GPU has finished all that was submitted, with a deadline, and without harm
// to captures.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "common/deadline.h"
#include "common/result.h"
#include "shim/cuda/contexts.h"
#include "shim/cuda/driver.h"
#include "shim/cuda/streams.h"
#include "shim/heap/implicit_wait.h"

namespace parkade::shim {

class Drain {
 public:
  // All outlive it.
  Drain(const Driver& driver, const Contexts& contexts, const Streams& streams, ImplicitWait& wait);
  ~Drain();
  const Contexts& contexts() const { return contexts_; }

  // Returns when every stream of every context is idle. Past `by`, or soon after *cancel became
  // true, returns an error and leaves the work to go on: FAILED_PRECONDITION BUSY (as Explain),
  // CANCELLED, or INTERNAL CUDA_... when a context is lost; *device is then its ordinal. The gate
  // is closed. One caller at a time: the operation thread.
  Result<void> Run(Deadline by, const std::atomic<bool>& cancel, int* device);

  // BUSY: which device and which of its streams have worked for how long since `since_ns`
  // (CLOCK_MONOTONIC). Half a second at most. No thread may be inside a gated call, which could be
  // destroying a stream; captures are held back by it.
  Error Explain(uint64_t since_ns, int* device);

 private:
  struct Waiter;

  const Driver& driver_;
  const Contexts& contexts_;
  const Streams& streams_;
  ImplicitWait& wait_;
  // Waiters of an earlier Run whose GPU work has not ended yet.
  std::vector<std::shared_ptr<Waiter>> late_;
};

}  // namespace parkade::shim
