// The bodies of the exported functions, one template for each policy.
#pragma once

#include "shim/hooks/call.h"
#include "shim/hooks/copies.h"
#include "shim/hooks/counts.h"
#include "shim/hooks/entries.h"
#include "shim/hooks/gate_pass.h"
#include "shim/hooks/real_library.h"

namespace parkade::shim {

// What a call gets when this process has no libcuda, or one too old for the name.
inline constexpr CUresult kNoSuchFunction = CUDA_ERROR_STUB_LIBRARY;

template <typename F, typename... Args>
inline CUresult Forward(Entry entry, Args... args) {
  F* real = reinterpret_cast<F*>(RealLibrary::Function(entry));
  if (real == nullptr) return kNoSuchFunction;
  return real(args...);
}

template <typename F, typename... Args>
inline CUresult Gated(Entry entry, Args... args) {
  const GatePass pass;
  if (!pass) return kNoPass;
  return Forward<F>(entry, args...);
}

template <typename F, typename... Args>
inline CUresult Copied(Entry entry, const void* caller, Args... args) {
  const GatePass pass;
  if (!pass) return kNoPass;
  const CUresult result = Forward<F>(entry, args...);
  if (result != CUDA_ERROR_INVALID_VALUE) return result;
  CopyEnds ends;
  (ends.Add(args), ...);
  return OpenToDevices(caller, ends) ? Forward<F>(entry, args...) : result;
}

template <typename F, typename... Args>
inline CUresult Freed(Entry entry, Args... args) {
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  return Forward<F>(entry, args...);
}

template <typename F, typename... Args>
inline CUresult Tracked(Entry entry, Args... args) {
  const CUresult result = Gated<F>(entry, args...);
  if (result == CUDA_SUCCESS) CountTrackedCall(entry);
  return result;
}

template <typename F, auto kHandler, typename... Args>
inline CUresult Custom(Entry entry, const void* caller, Args... args) {
  F* real = reinterpret_cast<F*>(RealLibrary::Function(entry));
  if (real == nullptr) return kNoSuchFunction;
  return kHandler(Call<F>{real, caller}, args...);
}

}  // namespace parkade::shim
