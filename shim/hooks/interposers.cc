// Reads the loader's list of files: its order is that of the global scope.
#include "shim/hooks/interposers.h"

#include <atomic>

#include "shim/hooks/entries.h"
#include "shim/libc/loaded_object.h"

namespace parkade::shim {
namespace {

constexpr int kMost = 8;
constexpr char kOwnSymbol[] = "parkade_version";  // shim/version.cc

constinit std::atomic<int> count{0};  // release: the addresses are there
constinit std::atomic<uintptr_t> lows[kMost] = {};

bool IsThisShim(const LoadedObject& object) {
  return object.Contains(reinterpret_cast<const void*>(&IsSecondShim));
}

bool IsLibc(const LoadedObject& object) { return FileName(object.path()).starts_with("libc.so."); }

bool ExportsDriverNames(const LoadedObject& object) {
  for (int i = 0; i < kEntryCount; ++i) {
    if (object.FindFunction(NameOf(Entry(i))) != nullptr) return true;
  }
  return false;
}

// Calls `visit` with each interposer, in order, until it returns true.
template <typename Visit>
void ForEachInterposer(Visit visit) {
  const int n = count.load(std::memory_order_acquire);
  for (int i = 0; i < n; ++i) {
    const auto object = LoadedObject::ByAddress(
        reinterpret_cast<const void*>(lows[i].load(std::memory_order_relaxed)));
    if (object && visit(*object)) return;
  }
}

}  // namespace

void Interposers::Find(const LoadedObject& driver) {
  bool driver_is_linked = false;
  bool behind = false;
  ForEachLoadedObject([&](const LoadedObject& object) {
    driver_is_linked = object.low() == driver.low();
    return driver_is_linked || IsLibc(object);
  });
  int found = 0;
  ForEachLoadedObject([&](const LoadedObject& object) {
    if (IsLibc(object) || found == kMost) return true;
    if (IsThisShim(object)) {
      behind = true;
    } else if (behind && object.low() != driver.low() && object.Find(kOwnSymbol) == nullptr &&
               (driver_is_linked || object.FindFunction("dlsym") != nullptr) &&
               ExportsDriverNames(object)) {
      lows[found++].store(object.low(), std::memory_order_relaxed);
    }
    return false;
  });
  count.store(found, std::memory_order_release);
}

void* Interposers::Function(const char* symbol) {
  void* found = nullptr;
  ForEachInterposer([&](const LoadedObject& object) {
    found = object.FindFunction(symbol);
    return found != nullptr;
  });
  return found;
}

bool Interposers::Contains(const void* address) {
  bool contains = false;
  ForEachInterposer([&](const LoadedObject& object) {
    contains = object.Contains(address);
    return contains;
  });
  return contains;
}

bool Interposers::Exports(const void* caller, const char* symbol) {
  bool exports = false;
  ForEachInterposer([&](const LoadedObject& object) {
    exports = object.Contains(caller) && object.FindFunction(symbol) != nullptr;
    return exports;
  });
  return exports;
}

bool StandsBeforeShim(const void* caller) {
  bool before = false;
  ForEachLoadedObject([&](const LoadedObject& object) {
    if (IsThisShim(object)) return true;
    before = object.Contains(caller);
    return before;
  });
  return before;
}

bool IsSecondShim() {
  bool second = false;
  ForEachLoadedObject([&](const LoadedObject& object) {
    if (IsThisShim(object)) return true;
    second = object.Find(kOwnSymbol) != nullptr;
    return second;
  });
  return second;
}

}  // namespace parkade::shim
