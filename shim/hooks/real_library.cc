// Finds the loaded libcuda and reads the addresses of its functions out of its symbol table.
#include "shim/hooks/real_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "shim/hooks/interposers.h"
#include "shim/libc/late.h"
#include "shim/libc/loaded_object.h"

namespace parkade::shim {
namespace {

constinit std::atomic<const void*> wrappers[kEntryCount] = {};

std::optional<LoadedObject> FindLibcuda() { return LoadedObject::ByFileName("libcuda.so"); }

}  // namespace

constinit std::atomic<bool> RealLibrary::found_{false};
constinit std::atomic<void*> RealLibrary::functions_[kEntryCount] = {};
constinit std::atomic<uintptr_t> RealLibrary::low_{0};
constinit std::atomic<uintptr_t> RealLibrary::size_{0};

bool RealLibrary::Find(Search search) {
  if (found_.load(std::memory_order_acquire)) return true;
  auto library = FindLibcuda();
  if (!library && search == Search::kLoad) {
    LateDlopen("libcuda.so.1", RTLD_LAZY);
    library = FindLibcuda();
  }
  if (!library) return false;
  // A program that closed the library would leave our pointers hanging.
  LateDlopen(library->path(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  low_.store(library->low(), std::memory_order_relaxed);
  size_.store(library->size(), std::memory_order_relaxed);
  Interposers::Find(*library);
  for (int i = 0; i < kEntryCount; ++i) {
    const char* name = NameOf(Entry(i));
    void* function = library->Find(name);
    void* next = function == nullptr ? nullptr : Interposers::Function(name);
    functions_[i].store(next != nullptr ? next : function, std::memory_order_relaxed);
  }
  found_.store(true, std::memory_order_release);
  return true;
}

void* RealLibrary::FunctionSlow(Entry entry) {
  return Find(Search::kLoad) ? Known(entry) : nullptr;
}

void* RealLibrary::Export(const char* symbol) {
  const auto library =
      LoadedObject::ByAddress(reinterpret_cast<void*>(low_.load(std::memory_order_relaxed)));
  return library ? library->Find(symbol) : nullptr;
}

const void* WrapperOf(Entry entry) {
  const void* known = wrappers[int(entry)].load(std::memory_order_relaxed);
  if (known != nullptr) return known;
  const void* all[kEntryCount];
  FillWrapperAddresses(all);
  for (int i = 0; i < kEntryCount; ++i) wrappers[i].store(all[i], std::memory_order_relaxed);
  return all[int(entry)];
}

bool Inert() {
  enum : int { kUnread, kActive, kInert };
  static constinit std::atomic<int> mode{kUnread};
  int now = mode.load(std::memory_order_relaxed);
  if (now == kUnread) {
    const char* setting = getenv("PARKADE");
    const bool off = setting != nullptr && strcmp(setting, "off") == 0;
    now = off || IsSecondShim() ? kInert : kActive;
    mode.store(now, std::memory_order_relaxed);
  }
  return now == kInert;
}

}  // namespace parkade::shim
