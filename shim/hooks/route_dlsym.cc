// The route of everyone who opens libcuda by hand: answers of dlsym and dlvsym.
//
// The exported dlsym and dlvsym are in dlsym_<machine>.S. They ask here first, and jump to the C
// library with the caller's own return address for everything that is not a name of ours.
#include <dlfcn.h>

#include <cstring>

#include "shim/hooks/counts.h"
#include "shim/hooks/entries.h"
#include "shim/hooks/interposers.h"
#include "shim/hooks/real_library.h"
#include "shim/hooks/registering.h"
#include "shim/libc/late.h"
#include "shim/libc/loaded_object.h"

namespace parkade::shim {
namespace {

using Dlsym = void* (*)(void* handle, const char* name);
using Dlvsym = void* (*)(void* handle, const char* name, const char* version);

// Two registers: when `jump` is not null the caller's call goes on there, else it gets `answer`.
struct Route {
  void* answer;
  void* jump;
};

template <typename F>
F RealOf(std::atomic<void*>& known, const char* symbol) {
  void* real = known.load(std::memory_order_relaxed);
  if (real == nullptr) {
    real = FindInLibc(symbol);
    known.store(real, std::memory_order_relaxed);
  }
  return reinterpret_cast<F>(real);
}

Dlsym RealDlsym() {
  static constinit std::atomic<void*> known{nullptr};
  return RealOf<Dlsym>(known, "dlsym");
}

Dlvsym RealDlvsym() {
  static constinit std::atomic<void*> known{nullptr};
  return RealOf<Dlvsym>(known, "dlvsym");
}

// What the application gets where the C library found `found` for the name of `entry`.
void* Replace(Entry entry, void* found) {
  const bool have_library = RealLibrary::Find(Search::kLoaded);
  if (found == WrapperOf(entry)) {
    if (have_library && RealLibrary::Known(entry) != nullptr) {
      return Inert() ? RealLibrary::Known(entry) : found;
    }
    // Without the shim this name would not have been found here: look behind it, which also leaves
    // the right words for dlerror.
    return RealDlsym()(RTLD_NEXT, NameOf(entry));
  }
  if (found == nullptr || !have_library || !RealLibrary::Contains(found) || Inert()) return found;
  return const_cast<void*>(WrapperOf(entry));
}

// The first definition of `name` that stands behind the caller's file in load order, which is how
// the loader orders the global scope too.
void* FindBehind(const void* caller, const char* name) {
  bool behind = false;
  void* found = nullptr;
  ForEachLoadedObject([&](const LoadedObject& object) {
    if (behind) found = object.Find(name);
    behind = behind || object.Contains(caller);
    return found != nullptr;
  });
  return found;
}

// A function of a driver that is newer than the shim.
void CountIfDrivers(const char* name) {
  if (name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z') return;
  if (RealLibrary::Find(Search::kLoaded) && RealLibrary::Export(name) != nullptr) {
    CountUnhookedName(name);
  }
}

// Another interposer in front of the shim asks for the dlsym behind it, by a version of the C
// library's: the shim's has none, and would be left out.
const void* LookUpBehind(void* handle, const char* name, const void* caller) {
  if (handle != RTLD_NEXT || name == nullptr || strncmp(name, "dl", 2) != 0) return nullptr;
  const void* own = strcmp(name, "dlsym") == 0    ? reinterpret_cast<const void*>(&dlsym)
                    : strcmp(name, "dlvsym") == 0 ? reinterpret_cast<const void*>(&dlvsym)
                                                  : nullptr;
  return own != nullptr && StandsBeforeShim(caller) ? own : nullptr;
}

// `look_up()` is the C library's own answer, `jump` its function.
template <typename LookUp>
Route RouteName(void* handle, const char* name, const void* caller, void* jump, LookUp look_up) {
  const Route pass{nullptr, jump};
  if (jump == nullptr || name == nullptr) return pass;
  const auto entry = FindEntry(name);
  if (!entry) {
    if (IsRegistering(name)) {
      // Behind its caller it is found as it is: the shim's where that stands in front.
      const bool next = handle == RTLD_NEXT;
      void* found = next ? FindBehind(caller, name) : look_up();
      void* answer = RouteRegistering(name, found);
      // The shim's alone: the C library looks behind the shim, for the words of dlerror.
      if (found != nullptr && answer == nullptr) return {RealDlsym()(RTLD_NEXT, name), nullptr};
      return next ? pass : Route{answer, nullptr};
    }
    CountIfDrivers(name);
    return pass;
  }
  // libcuda looks its own functions up too (on WSL2), and must get its own.
  if (RealLibrary::Find(Search::kLoaded) &&
      (RealLibrary::Contains(caller) || Interposers::Exports(caller, name))) {
    return pass;
  }
  if (handle == RTLD_NEXT) {
    // A call from here would mean "behind the shim". Only answers of ours are given from here.
    void* found = FindBehind(caller, name);
    void* answer = Replace(*entry, found);
    return found != nullptr && (answer != found || found == WrapperOf(*entry))
               ? Route{answer, nullptr}
               : pass;
  }
  return {Replace(*entry, look_up()), nullptr};
}

}  // namespace

extern "C" {

Route parkade_route_dlsym(void* handle, const char* name, const void* caller) {
  const Dlsym real = RealDlsym();
  return RouteName(handle, name, caller, reinterpret_cast<void*>(real),
                   [&] { return real(handle, name); });
}

Route parkade_route_dlvsym(void* handle, const char* name, const char* version,
                           const void* caller) {
  const Dlvsym real = RealDlvsym();
  if (const void* own = LookUpBehind(handle, name, caller)) {
    return {const_cast<void*>(own), nullptr};
  }
  return RouteName(handle, name, caller, reinterpret_cast<void*>(real),
                   [&] { return real(handle, name, version); });
}

}  // extern "C"
}  // namespace parkade::shim
