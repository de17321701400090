// What an allocation does when the GPU has no room for it.
#pragma once

#include "shim/lifecycle.h"

namespace parkade::shim {

// An attempt to allocate was answered with OUT_OF_MEMORY: lets `again()`, which passes the gate
// by itself, try anew whenever the driver shows room for `bytes`, for Parts::alloc_wait_ms at most;
// without that, and where the process takes turns, until its turn is refused, ten minutes at most.
// Then notes the failure in ledger and log. Returns the last answer. Application threads, outside
// the gate: a pause of this process goes on meanwhile, and what it frees is not waited for in vain,
// for the next attempt waits at the gate and is made when it opens.
CUresult WaitForMemory(Parts& parts, size_t bytes, CUresult (*again)(void* arg), void* arg);

template <typename Again>
CUresult WaitForMemory(Parts& parts, size_t bytes, Again again) {
  return WaitForMemory(
      parts, bytes, [](void* arg) { return (*static_cast<Again*>(arg))(); }, &again);
}

}  // namespace parkade::shim
