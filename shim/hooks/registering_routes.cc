// Finds the real functions behind the shim's, and answers dlsym.
#include <dlfcn.h>

#include <cstring>
#include <optional>

#include "shim/hooks/real_library.h"
#include "shim/hooks/registering.h"
#include "shim/libc/late.h"
#include "shim/libc/loaded_object.h"

namespace parkade::shim {
namespace {

constexpr const char* kNames[kRegisteringCount] = {
    "ibv_reg_mr",         "ibv_reg_mr_iova",        "ibv_reg_mr_iova2",
    "ibv_rereg_mr",       "ibv_dereg_mr",           "ncclCommRegister",
    "ncclCommDeregister", "ncclCommWindowRegister", "ncclCommWindowDeregister",
    "ncclCommDestroy",    "ncclCommAbort",
};

std::optional<int> IndexOf(const char* name) {
  if (strncmp(name, "ibv_", 4) != 0 && strncmp(name, "nccl", 4) != 0) return std::nullopt;
  for (int i = 0; i < kRegisteringCount; ++i) {
    if (strcmp(name, kNames[i]) == 0) return i;
  }
  return std::nullopt;
}

bool IsThisShim(const LoadedObject& object) {
  return object.Contains(reinterpret_cast<const void*>(&RealRegistering));
}

void* OwnFunction(int index) {
  const auto shim = LoadedObject::ByAddress(reinterpret_cast<const void*>(&RealRegistering));
  return shim ? shim->FindFunction(kNames[index]) : nullptr;
}

// In the global scope, behind the shim.
void* FindGlobal(int index) { return LateDlsym(RTLD_NEXT, kNames[index]); }

// In the file of `caller` and what that file needs.
void* FindFor(int index, const void* caller) {
  const auto object = LoadedObject::ByAddress(caller);
  if (!object || IsThisShim(*object)) return nullptr;
  const char* path = object->path()[0] == '\0' ? nullptr : object->path();
  void* const handle = LateDlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* const found = LateDlsym(handle, kNames[index]);
  LateDlclose(handle);
  return found == OwnFunction(index) ? nullptr : found;
}

// In the first file behind the shim that has it, wherever it is visible.
void* FindAnywhere(int index) {
  void* found = nullptr;
  bool behind = false;
  ForEachLoadedObject([&](const LoadedObject& object) {
    if (behind) found = object.FindFunction(kNames[index]);
    behind = behind || IsThisShim(object);
    return found != nullptr;
  });
  return found;
}

}  // namespace

// As the loader goes: the global scope first, then what the caller itself was loaded with. Code
// that was given the function by dlsym may have neither.
void* RealRegistering(Registering function, const void* caller) {
  const int index = int(function);
  void* found = FindGlobal(index);
  if (found == nullptr && caller != nullptr) found = FindFor(index, caller);
  return found != nullptr ? found : FindAnywhere(index);
}

bool IsRegistering(const char* name) { return IndexOf(name).has_value(); }

void* RouteRegistering(const char* name, void* found) {
  const auto index = IndexOf(name);
  if (!index || found == nullptr) return found;
  void* const own = OwnFunction(*index);
  if (found == own) {
    void* const global = FindGlobal(*index);
    return Inert() ? global : global == nullptr ? nullptr : own;
  }
  return found == RealRegistering(Registering(*index), nullptr) && !Inert() ? own : found;
}

}  // namespace parkade::shim
