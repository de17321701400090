// ImplicitWait: waits for all work of a context the way cudaFree does, without harm to captures.
//
// The driver waits for every stream when a native allocation is freed, and that leaves captures
// alone on a thread in relaxed mode; cuCtxSynchronize would fail and kill them (driver 580). So
// each context has small native allocations in stock that are there only to be freed.
#pragma once

#include <cuda.h>

#include <map>
#include <vector>

#include "common/mutex.h"
#include "shim/cuda/driver.h"

namespace parkade::shim {

class ImplicitWait {
 public:
  explicit ImplicitWait(const Driver& driver);  // which outlives it
  // Leaves the stock to the driver, which frees it with its context.
  ~ImplicitWait() = default;
  ImplicitWait(const ImplicitWait&) = delete;
  ImplicitWait& operator=(const ImplicitWait&) = delete;

  // Adds to the stock of a context, so that a later Run neither needs memory nor makes any: one
  // spare a call, until there are plenty. Any thread, with each allocation; a failure shows in Run.
  void Prepare(CUcontext context);

  // Returns when all work that was submitted to `context` before the call has ended. No time-out.
  // OUT_OF_MEMORY: nothing in stock and nothing to be had, has not waited. Another error is that of
  // the work. Any thread, whatever its current context.
  CUresult Run(CUcontext context);

  // The context goes, and the driver frees its stock with it.
  void Forget(CUcontext context);

  // Gives the stock of every context back, each of which waits.
  void Clear();

 private:
  struct Stock {
    std::vector<CUdeviceptr> spares;
    size_t on_order = 0;  // being allocated by a thread
  };
  CUdeviceptr Take(CUcontext context);
  // Makes `more` spares, not beyond the most that are kept; always the least that a wait needs.
  void Refill(CUcontext context, size_t more);

  const Driver& driver_;
  Mutex mu_;  // innermost: nothing is called while it is held
  std::map<CUcontext, Stock> stocks_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
