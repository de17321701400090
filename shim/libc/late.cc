// Looks functions of the C library up in the files that may hold them.
#include "shim/libc/late.h"

#include "shim/libc/loaded_object.h"

namespace parkade::shim {

void* FindInLibc(const char* symbol) {
  for (const char* file : {"libc.so.6", "libdl.so.2", "libpthread.so.0"}) {
    const auto object = LoadedObject::ByFileName(file);
    void* found = object ? object->Find(symbol) : nullptr;
    if (found != nullptr) return found;
  }
  return nullptr;
}

void* LateDlopen(const char* path, int flags) {
  auto* real = reinterpret_cast<void* (*)(const char*, int)>(FindInLibc("dlopen"));
  return real == nullptr ? nullptr : real(path, flags);
}

}  // namespace parkade::shim
