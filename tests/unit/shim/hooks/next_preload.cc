// A second preloaded interposer: stands in front of one function of the driver and one of libc, and
// goes on to the next definition of each.
#include <dlfcn.h>
#include <sys/types.h>

#include <cstddef>

extern "C" {

int next_preload_calls() {
  static int calls = 0;
  return calls++;
}

int cuMemAlloc_v2(unsigned long long* out, size_t bytes) {
  next_preload_calls();
  auto* next =
      reinterpret_cast<int (*)(unsigned long long*, size_t)>(dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
  return next(out, bytes);
}

pid_t getppid() {
  auto* next = reinterpret_cast<pid_t (*)()>(dlsym(RTLD_NEXT, "getppid"));
  return next == getppid ? -1 : next();
}
}
