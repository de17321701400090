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

namespace {
template <typename F>
F* InLibc(const char* symbol) {
  return reinterpret_cast<F*>(FindInLibc(symbol));
}
}  // namespace

void* LateDlopen(const char* path, int flags) {
  auto* real = InLibc<void*(const char*, int)>("dlopen");
  return real == nullptr ? nullptr : real(path, flags);
}

void* LateDlsym(void* handle, const char* name) {
  auto* real = InLibc<void*(void*, const char*)>("dlsym");
  void* found = real == nullptr ? nullptr : real(handle, name);
  if (found != nullptr) return found;
  if (auto* forget = InLibc<char*()>("dlerror")) (void)forget();
  return nullptr;
}

void LateDlclose(void* handle) {
  if (auto* real = InLibc<int(void*)>("dlclose")) (void)real(handle);
}

}  // namespace parkade::shim
