// FreeCounted: a free by the driver of memory that may be counted as foreign.
#pragma once

#include "shim/hooks/hooked.h"

namespace parkade::shim {

// Makes the call `free`, of what is counted under `key` if anything is. It is counted no longer, or
// as before where the driver refuses. Application threads, gate entered.
template <typename Free>
CUresult FreeCounted(const void* caller, uint64_t key, Free free) {
  Parts* parts = PartsFor(caller);
  const auto entry = parts == nullptr ? std::nullopt : parts->foreign.Take(key);
  const CUresult r = free();
  if (r != CUDA_SUCCESS && entry) parts->foreign.PutBack(key, *entry);
  return r;
}

}  // namespace parkade::shim
