// Finds the real functions behind the shim's, and answers dlsym.
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <string>

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

constinit std::atomic<void*> reals[kRegisteringCount] = {};

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

struct Found {
  void* function = nullptr;
  std::string path;  // of its file
};

Found FindBehindShim(int index) {
  Found found;
  bool behind = false;
  ForEachLoadedObject([&](const LoadedObject& object) {
    if (behind) found.function = object.FindFunction(kNames[index]);
    behind = behind || IsThisShim(object);
    if (found.function != nullptr) found.path = object.path();
    return found.function != nullptr;
  });
  return found;
}

}  // namespace

void* RealRegistering(Registering function) {
  std::atomic<void*>& known = reals[int(function)];
  void* real = known.load(std::memory_order_relaxed);
  if (real != nullptr) return real;
  const Found found = FindBehindShim(int(function));
  if (found.function == nullptr) return nullptr;
  // A library that is closed would leave this pointer hanging.
  if (!found.path.empty()) LateDlopen(found.path.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  known.store(found.function, std::memory_order_relaxed);
  return found.function;
}

bool IsRegistering(const char* name) { return IndexOf(name).has_value(); }

void* RouteRegistering(const char* name, void* found) {
  const auto index = IndexOf(name);
  if (!index || found == nullptr) return found;
  void* const own = OwnFunction(*index);
  void* const known = reals[*index].load(std::memory_order_relaxed);
  void* const real = known != nullptr ? known : FindBehindShim(*index).function;
  if (Inert()) return found == own ? real : found;
  if (found == own) return real == nullptr ? nullptr : own;
  return found == real ? own : found;
}

}  // namespace parkade::shim
