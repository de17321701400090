// A second preload in a profiler's manner: stands in front of an allocation by all three routes,
// the dlsym of the C library included, and goes on to what is next, found as such tools find it.
#include <dlfcn.h>

#include <cstddef>
#include <cstring>

namespace {

using Dlsym = void* (*)(void*, const char*);

int calls = 0;

// As tools of before glibc 2.34 do, and all that want to run there.
Dlsym Next() {
  static const auto next = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", PARKADE_FIRST_GLIBC));
  return next;
}

template <typename F>
F* NextOf(F*, const char* name) {
  void* found = Next()(RTLD_NEXT, name);
  if (found == nullptr) {  // the driver was opened by the program, out of sight
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver != nullptr) found = Next()(driver, name);
  }
  return reinterpret_cast<F*>(found);
}

}  // namespace

extern "C" {

int profiler_calls() { return calls; }

int cuMemAlloc_v2(unsigned long long* out, size_t bytes) {
  ++calls;
  return NextOf(&cuMemAlloc_v2, "cuMemAlloc_v2")(out, bytes);
}

int cuGetProcAddress_v2(const char* symbol, void** out, int version, unsigned long long flags,
                        void* status) {
  const int r =
      NextOf(&cuGetProcAddress_v2, "cuGetProcAddress_v2")(symbol, out, version, flags, status);
  if (r == 0 && strcmp(symbol, "cuMemAlloc") == 0) *out = reinterpret_cast<void*>(&cuMemAlloc_v2);
  return r;
}

// An ordinary call forwards: the next one sees this library as its caller.
void* dlsym(void* handle, const char* name) {
  if (handle != RTLD_NEXT && strcmp(name, "cuMemAlloc_v2") == 0) {
    return reinterpret_cast<void*>(&cuMemAlloc_v2);
  }
  if (handle != RTLD_NEXT && strcmp(name, "cuGetProcAddress_v2") == 0) {
    return reinterpret_cast<void*>(&cuGetProcAddress_v2);
  }
  void* found = Next()(handle, name);
  asm volatile("");  // no tail call
  return found;
}
}
