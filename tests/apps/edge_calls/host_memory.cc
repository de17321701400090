// Pinned and registered host memory, and device memory in its place.
#include <sys/mman.h>

#include "tests/apps/edge_calls/case.h"

namespace {

void Allocate(Answer& a, size_t bytes, unsigned flags) {
  void* p = reinterpret_cast<void*>(kUntouched);
  const CUresult r = cuMemHostAlloc(&p, bytes, flags);
  a.Code(r).Note("out=%s", p == nullptr ? "null" : Touched(AsDevice(p)));
  if (r == CUDA_SUCCESS) a.Code("free", cuMemFreeHost(p));
}

const Case kCases[] = {
    {"host_alloc_zero_bytes", [](Answer& a) { Allocate(a, 0, 0); }},
    {"host_alloc_null_out", [](Answer& a) { a.Code(cuMemHostAlloc(nullptr, 100, 0)); }},
    {"host_alloc_bad_flags", [](Answer& a) { Allocate(a, 100, 0x80); }},
    {"host_alloc_size_max", [](Answer& a) { Allocate(a, SIZE_MAX, 0); }},
    {"host_free_null", [](Answer& a) { a.Code(cuMemFreeHost(nullptr)); }},
    {"host_free_ordinary", [](Answer& a) { a.Code(cuMemFreeHost(host_bytes)); }},
    {"host_free_inside",
     [](Answer& a) {
       char* p = nullptr;
       Must(cuMemHostAlloc(reinterpret_cast<void**>(&p), 8192, 0), "cuMemHostAlloc");
       a.Code("inside", cuMemFreeHost(p + 4096)).Code("base", cuMemFreeHost(p));
     }},
    {"host_free_device_memory",
     [](Answer& a) {
       const Memory m(kMiddle);
       a.Code(cuMemFreeHost(reinterpret_cast<void*>(CUdeviceptr(m))));
     }},
    {"register_null", [](Answer& a) { a.Code(cuMemHostRegister(nullptr, 4096, 0)); }},
    {"register_zero_bytes", [](Answer& a) { a.Code(cuMemHostRegister(host_bytes, 0, 0)); }},
    {"register_bad_flags",
     [](Answer& a) {
       const CUresult r = cuMemHostRegister(host_bytes, 4096, 0x80);
       a.Code(r);
       if (r == CUDA_SUCCESS) Must(cuMemHostUnregister(host_bytes), "cuMemHostUnregister");
     }},
    {"register_device_memory",
     [](Answer& a) {
       const Memory m(kMiddle);
       a.Code(cuMemHostRegister(reinterpret_cast<void*>(CUdeviceptr(m)), 4096, 0));
     }},
    {"register_device_memory_large",
     [](Answer& a) {
       const Memory m(kLarge);
       a.Code(cuMemHostRegister(reinterpret_cast<void*>(CUdeviceptr(m)), 4096, 0));
     }},
    {"register_twice",
     [](Answer& a) {
       a.Code("once", cuMemHostRegister(host_bytes, 8192, 0));
       a.Code("twice", cuMemHostRegister(host_bytes, 8192, 0));
       a.Code("part", cuMemHostRegister(host_bytes + 4096, 4096, 0));
       a.Code("inside", cuMemHostUnregister(host_bytes + 4096));
       a.Code("base", cuMemHostUnregister(host_bytes));
       a.Code("again", cuMemHostUnregister(host_bytes));
     }},
    {"register_unmapped",
     [](Answer& a) {
       void* hole = mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
       a.Code(cuMemHostRegister(hole, 8192, 0));
       munmap(hole, 8192);
     }},
    {"unregister_device_memory",
     [](Answer& a) {
       const Memory m(kMiddle);
       a.Code(cuMemHostUnregister(reinterpret_cast<void*>(CUdeviceptr(m))));
     }},
    {"unregister_null", [](Answer& a) { a.Code(cuMemHostUnregister(nullptr)); }},
    {"device_pointer_of_device_memory",
     [](Answer& a) {
       const Memory m(kMiddle);
       CUdeviceptr p = kUntouched;
       a.Code(cuMemHostGetDevicePointer(&p, reinterpret_cast<void*>(CUdeviceptr(m)), 0));
       a.Note("out=%s", p == 0 ? "null" : Touched(p));
     }},
    {"device_pointer_null_out",
     [](Answer& a) { a.Code(cuMemHostGetDevicePointer(nullptr, host_bytes, 0)); }},
    {"device_pointer_bad_flags",
     [](Answer& a) {
       void* pinned = nullptr;
       CUdeviceptr p = kUntouched;
       Must(cuMemAllocHost(&pinned, kSmall), "cuMemAllocHost");
       a.Code(cuMemHostGetDevicePointer(&p, pinned, 1));
       Must(cuMemFreeHost(pinned), "cuMemFreeHost");
     }},
    {"flags_of_device_memory",
     [](Answer& a) {
       const Memory m(kMiddle);
       unsigned flags = 77;
       a.Code(cuMemHostGetFlags(&flags, reinterpret_cast<void*>(CUdeviceptr(m))));
       a.Note("flags=%u", flags);
     }},
};

}  // namespace

std::span<const Case> HostMemoryCases() { return kCases; }
