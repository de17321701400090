// cuMemAllocAsync and cuMemFreeAsync, also on memory of cuMemAlloc; pools.
#include "tests/apps/edge_calls/case.h"

namespace {

void Allocate(Answer& a, size_t bytes) {
  const Stream stream;
  CUdeviceptr p = kUntouched;
  const CUresult r = cuMemAllocAsync(&p, bytes, stream);
  a.Code(r).Note("out=%s", p == kUntouched ? "untouched" : p == 0 ? "null" : "set");
  if (r == CUDA_SUCCESS && p != 0) a.Code("free", cuMemFreeAsync(p, stream));
  a.Code("wait", cuStreamSynchronize(stream));
}

void FreeOnly(Answer& a, CUdeviceptr p) {
  const Stream stream;
  a.Code(cuMemFreeAsync(p, stream)).Code("wait", cuStreamSynchronize(stream));
}

// Frees memory of cuMemAlloc in stream order, and asks for it afterwards.
void FreePlain(Answer& a, size_t bytes, CUstream stream) {
  CUdeviceptr p = 0;
  Must(cuMemAlloc(&p, bytes), "cuMemAlloc");
  const CUresult r = cuMemFreeAsync(p, stream);
  a.Code(r).Code("wait", cuStreamSynchronize(stream));
  size_t size = 0;
  a.Code("range", cuMemGetAddressRange(nullptr, &size, p)).Code("again", cuMemFree(p));
}

const Case kCases[] = {
    {"alloc_async_zero_bytes", [](Answer& a) { Allocate(a, 0); }},
    {"alloc_async_one_byte", [](Answer& a) { Allocate(a, 1); }},
    {"alloc_async_size_max", [](Answer& a) { Allocate(a, SIZE_MAX); }},
    {"alloc_async_32_tib", [](Answer& a) { Allocate(a, size_t(32) << 40); }},
    {"alloc_async_null_out",
     [](Answer& a) {
       const Stream stream;
       a.Code(cuMemAllocAsync(nullptr, 100, stream));
     }},
    {"alloc_from_no_pool",
     [](Answer& a) {
       const Stream stream;
       CUdeviceptr p = kUntouched;
       a.Code(cuMemAllocFromPoolAsync(&p, 100, nullptr, stream)).Note("out=%s", Touched(p));
     }},
    {"free_async_null", [](Answer& a) { FreeOnly(a, 0); }},
    {"free_async_low_address", [](Answer& a) { FreeOnly(a, 16); }},
    {"free_async_host_memory", [](Answer& a) { FreeOnly(a, AsDevice(host_bytes)); }},
    {"free_async_plain_memory",
     [](Answer& a) {
       const Stream stream;
       FreePlain(a, kSmall, stream);
     }},
    {"free_async_plain_memory_large",
     [](Answer& a) {
       const Stream stream;
       FreePlain(a, kLarge, stream);
     }},
    {"free_async_plain_memory_default_stream", [](Answer& a) { FreePlain(a, kSmall, nullptr); }},
    {"free_async_plain_memory_own_default_stream",
     [](Answer& a) { FreePlain(a, kSmall, CU_STREAM_PER_THREAD); }},
    {"free_async_interior",
     [](Answer& a) {
       const Memory m(kMiddle);
       FreeOnly(a, m + 4096);
     }},
    {"free_async_freed", [](Answer& a) { FreeOnly(a, Freed(kMiddle)); }},
    {"free_async_twice",
     [](Answer& a) {
       const Stream stream;
       CUdeviceptr p = 0;
       Must(cuMemAllocAsync(&p, kSmall, stream), "cuMemAllocAsync");
       a.Code("once", cuMemFreeAsync(p, stream)).Code("wait", cuStreamSynchronize(stream));
       a.Code("twice", cuMemFreeAsync(p, stream));
     }},
    {"free_of_pool_memory",
     [](Answer& a) {
       const Stream stream;
       CUdeviceptr p = 0;
       Must(cuMemAllocAsync(&p, kSmall, stream), "cuMemAllocAsync");
       Must(cuStreamSynchronize(stream), "cuStreamSynchronize");
       a.Code("once", cuMemFree(p)).Code("twice", cuMemFree(p));
     }},
    {"pool_trim_none", [](Answer& a) { a.Code(cuMemPoolTrimTo(nullptr, 0)); }},
    {"pool_destroy_default",
     [](Answer& a) {
       CUmemoryPool pool = nullptr;
       Must(cuDeviceGetDefaultMemPool(&pool, 0), "cuDeviceGetDefaultMemPool");
       a.Code(cuMemPoolDestroy(pool));
     }},
    {"pool_export_plain_memory",
     [](Answer& a) {
       const Memory m(kMiddle);
       CUmemPoolPtrExportData data;
       a.Code(cuMemPoolExportPointer(&data, m));
     }},
};

}  // namespace

std::span<const Case> StreamOrderedCases() { return kCases; }
