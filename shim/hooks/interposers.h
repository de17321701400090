// Interposers: libraries that stand between the shim and the driver, as a profiler or a wrapper
// that shares a GPU does when it is preloaded behind the shim. What they export is next in line.
//
// Filled without a lock by RealLibrary::Find: threads that come at once fill in the same values.
#pragma once

namespace parkade::shim {

class LoadedObject;

class Interposers {
 public:
  // Looks for them in the files that were loaded with the program, behind the shim and before the C
  // library. One that finds its next by RTLD_NEXT can be called only where `driver` was loaded with
  // the program too; one with a dlsym of its own expects calls of a driver that is opened later.
  static void Find(const LoadedObject& driver);

  // The function that stands right behind the shim under `symbol`; null when that is the driver's.
  static void* Function(const char* symbol);
  static bool Contains(const void* address);
  // Whether `caller` is in an interposer that exports `symbol`: what it looks up under that name is
  // what it calls next, and must not lead back to the shim.
  static bool Exports(const void* caller, const char* symbol);
};

// Whether the file of `caller` was loaded before the shim. False for code of no file.
bool StandsBeforeShim(const void* caller);

// Whether another copy of the shim, of another path, was loaded before this one.
bool IsSecondShim();

}  // namespace parkade::shim
