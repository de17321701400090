// Allocations that stay, and all queries about them on a thread that does nothing else.
#include "tests/apps/edge_calls/watch.h"

#include <unistd.h>

#include <cstdio>

#include "tests/apps/edge_calls/attribute.h"

namespace {

void Look(const char* what, CUdeviceptr base, size_t bytes, CUdeviceptr at) {
  Answer a;
  for (const Attribute& attribute : Attributes()) {
    // Of an old interface for network cards, which nobody asks for: the driver forgets them
    // meanwhile.
    if (attribute.kind == Attribute::Kind::kTokens) continue;
    a.Note("%s=%s", attribute.name, Describe(attribute, at, base, true).c_str());
    uint64_t value[4] = {0, 0, 0, 0};
    void* to = value;
    CUpointer_attribute id = attribute.id;
    const CUresult r = cuPointerGetAttributes(1, &id, &to, at);
    a.Note("%s:%llx", Name(r), static_cast<unsigned long long>(value[0]));
  }
  CUdeviceptr start = kUntouched;
  size_t size = kUntouched;
  a.Code("range", cuMemGetAddressRange(&start, &size, at));
  a.Note("%s %zu", From(base, start).c_str(), size);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult r = cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(at));
  a.Code("retain", r);
  if (r == CUDA_SUCCESS) Must(cuMemRelease(handle), "cuMemRelease");
  printf("%s %+lld of %zu: %s\n", what, static_cast<long long>(at - base), bytes, a.text().c_str());
}

void LookAt(const char* what, const Memory& m) {
  for (const CUdeviceptr at : {CUdeviceptr(m), m + m.bytes() / 2, m.end() - 1, m.end()}) {
    Look(what, m, m.bytes(), at);
  }
}

}  // namespace

int Watch() {
  Must(cuCtxSetCurrent(PrimaryContext()), "cuCtxSetCurrent");
  const Memory small(kSmall), middle(kMiddle), synced(kMiddle), large(kLarge);
  const Freed freed(kMiddle);
  unsigned on = 1;
  Must(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, synced),
       "cuPointerSetAttribute");
  printf("edge_calls pid %d ready: 4 buffers, %zu bytes\n", getpid(),
         small.bytes() + middle.bytes() + synced.bytes() + large.bytes());
  for (char line[16]; fgets(line, sizeof line, stdin) != nullptr;) {
    LookAt("small", small);
    LookAt("middle", middle);
    LookAt("synced", synced);
    LookAt("large", large);
    Look("freed", freed, 0, freed);
    puts("looked");
  }
  return 0;
}
