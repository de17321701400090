// A preload in the manner of torch_memory_saver: exports the runtime's and the driver's allocation,
// passes each call to the next definition, and says at the end how many there were.
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

static atomic_int calls;

static void* Next(const char* name) {
  void* next = dlsym(RTLD_NEXT, name);
  if (next != NULL) return next;
  // The program has opened the driver for itself.
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return driver == NULL ? NULL : dlsym(driver, name);
}

int cudaMalloc(void** out, size_t bytes) {
  int (*next)(void**, size_t) = (int (*)(void**, size_t))Next("cudaMalloc");
  return next == NULL ? 3 : next(out, bytes);
}

int cuMemAlloc_v2(unsigned long long* out, size_t bytes) {
  int (*next)(unsigned long long*, size_t) =
      (int (*)(unsigned long long*, size_t))Next("cuMemAlloc_v2");
  ++calls;
  return next == NULL ? 3 : next(out, bytes);
}

__attribute__((destructor)) static void Tell(void) {
  if (calls > 0) fprintf(stderr, "memory_saver: %d allocations\n", calls);
}
