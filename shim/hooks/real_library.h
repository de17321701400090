// RealLibrary: the libcuda of this process, found without help from dlsym, and its functions.
//
// Everything here is constant-initialised and filled without a lock: threads that come at once fill
// in the same values. That makes it safe in constructors, in signal handlers and after fork.
#pragma once

#include <atomic>
#include <cstdint>

#include "shim/hooks/entries.h"

namespace parkade::shim {

enum class Search {
  kLoaded,  // what is in the process already
  kLoad,    // else open libcuda.so.1, as a program that calls the driver would have
};

class RealLibrary {
 public:
  // True once the functions of a libcuda are known. It then stays loaded for good.
  static bool Find(Search search);

  // The real function of `entry`, or that of an interposer in front of it. Null when the process
  // has no libcuda or this one is older than the name. Looks for the library on the first calls.
  static void* Function(Entry entry) {
    void* known = functions_[int(entry)].load(std::memory_order_relaxed);
    return __builtin_expect(known != nullptr, 1) ? known : FunctionSlow(entry);
  }
  // The same without looking: null before Find was true.
  static void* Known(Entry entry) { return functions_[int(entry)].load(std::memory_order_relaxed); }

  // Only after Find was true.
  static bool Contains(const void* address) {
    return reinterpret_cast<uintptr_t>(address) - low_.load(std::memory_order_relaxed) <
           size_.load(std::memory_order_relaxed);
  }

  // The address that the library exports under `symbol`, known to the shim or not; null when there
  // is none. Only after Find was true.
  static void* Export(const char* symbol);

 private:
  static void* FunctionSlow(Entry entry);

  static std::atomic<bool> found_;  // release after all below
  static std::atomic<void*> functions_[kEntryCount];
  static std::atomic<uintptr_t> low_;
  static std::atomic<uintptr_t> size_;
};

// The shim's own function for `entry`, as exported. Any time.
const void* WrapperOf(Entry entry);

// True when PARKADE=off, or when another copy of the shim stands in front of this one: hooks pass
// everything through. Reads the environment on the first call,
// which is always inside a call of the application.
bool Inert();

}  // namespace parkade::shim
