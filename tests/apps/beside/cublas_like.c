// A library with a CUDA runtime of its own that keeps state in GPU memory, in the manner of cuBLAS:
// what it allocates it allocates itself.
#include <dlfcn.h>
#include <stddef.h>

int cublas_like_create(void* driver, unsigned long long* state, size_t bytes) {
  int (*alloc)(unsigned long long*, size_t) =
      (int (*)(unsigned long long*, size_t))dlsym(driver, "cuMemAlloc_v2");
  const int r = alloc == NULL ? 3 : alloc(state, bytes);
  __asm__ volatile("");  // no tail call: the driver must see this file as its caller
  return r;
}
