// A library with the file name of NCCL that allocates through the driver's exported names.
#include <cstddef>

extern "C" {
int cuMemAlloc_v2(unsigned long long* out, size_t bytes);
int cuMemFree_v2(unsigned long long ptr);
int cuMemCreate(unsigned long long* handle, size_t bytes, const void* prop,
                unsigned long long flags);
int cuMemMap(unsigned long long at, size_t bytes, size_t offset, unsigned long long handle,
             unsigned long long flags);

int nccl_like_alloc(unsigned long long* out, size_t bytes) {
  const int r = cuMemAlloc_v2(out, bytes);
  asm volatile("");  // no tail call: the driver must see this file as its caller
  return r;
}
int nccl_like_free(unsigned long long ptr) {
  const int r = cuMemFree_v2(ptr);
  asm volatile("");
  return r;
}
int nccl_like_create(unsigned long long* handle, size_t bytes, const void* prop) {
  const int r = cuMemCreate(handle, bytes, prop, 0);
  asm volatile("");
  return r;
}
int nccl_like_map(unsigned long long at, size_t bytes, unsigned long long handle) {
  const int r = cuMemMap(at, bytes, 0, handle, 0);
  asm volatile("");
  return r;
}
}
