// Managed memory, and what is said of it asked of memory of cuMemAlloc.
#include "tests/apps/edge_calls/case.h"

namespace {

constexpr CUmemLocation kDevice = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
constexpr CUmemLocation kHost = {CU_MEM_LOCATION_TYPE_HOST, 0};

void Allocate(Answer& a, size_t bytes, unsigned flags) {
  CUdeviceptr p = kUntouched;
  const CUresult r = cuMemAllocManaged(&p, bytes, flags);
  a.Code(r).Note("out=%s", p == 0 ? "null" : Touched(p));
  if (r == CUDA_SUCCESS) a.Code("free", cuMemFree(p));
}

void Prefetch(Answer& a, CUdeviceptr at, size_t bytes, CUmemLocation to) {
  const Stream stream;
  a.Code(cuMemPrefetchAsync(at, bytes, to, 0, stream)).Code("wait", cuStreamSynchronize(stream));
}

const Case kCases[] = {
    {"managed_zero_bytes", [](Answer& a) { Allocate(a, 0, CU_MEM_ATTACH_GLOBAL); }},
    {"managed_null_out",
     [](Answer& a) { a.Code(cuMemAllocManaged(nullptr, 100, CU_MEM_ATTACH_GLOBAL)); }},
    {"managed_no_flags", [](Answer& a) { Allocate(a, 4096, 0); }},
    {"managed_bad_flags", [](Answer& a) { Allocate(a, 4096, 0x80); }},
    {"managed_size_max", [](Answer& a) { Allocate(a, SIZE_MAX, CU_MEM_ATTACH_GLOBAL); }},
    {"prefetch_plain_memory",
     [](Answer& a) {
       const Memory m(kMiddle);
       Prefetch(a, m, kMiddle, kDevice);
       Prefetch(a, m, kMiddle, kHost);
     }},
    {"prefetch_plain_memory_past_the_end",
     [](Answer& a) {
       const Memory m(kMiddle);
       Prefetch(a, m, kMiddle + 1, kDevice);
     }},
    {"prefetch_nothing",
     [](Answer& a) {
       const Memory m(kMiddle);
       Prefetch(a, m, 0, kDevice);
     }},
    {"prefetch_freed", [](Answer& a) { Prefetch(a, Freed(kMiddle), 4096, kDevice); }},
    {"advise_plain_memory",
     [](Answer& a) {
       const Memory m(kMiddle);
       a.Code(cuMemAdvise(m, kMiddle, CU_MEM_ADVISE_SET_READ_MOSTLY, kDevice));
       a.Code(cuMemAdvise(m, kMiddle, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kHost));
     }},
    {"advise_nothing",
     [](Answer& a) {
       const Memory m(kMiddle);
       a.Code(cuMemAdvise(m, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, kDevice));
     }},
    {"advise_freed",
     [](Answer& a) {
       a.Code(cuMemAdvise(Freed(kMiddle), 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, kDevice));
     }},
    {"range_attribute_plain_memory",
     [](Answer& a) {
       const Memory m(kMiddle);
       int value = 77;
       a.Code(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, m,
                                     kMiddle));
       a.Note("value=%d", value);
     }},
    {"range_attribute_freed",
     [](Answer& a) {
       int value = 77;
       a.Code(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                     Freed(kMiddle), 4096));
       a.Note("value=%d", value);
     }},
    {"attach_plain_memory",
     [](Answer& a) {
       const Memory m(kMiddle);
       const Stream stream;
       a.Code(cuStreamAttachMemAsync(stream, m, 0, CU_MEM_ATTACH_SINGLE));
       a.Code("wait", cuStreamSynchronize(stream));
     }},
    {"attach_null",
     [](Answer& a) {
       const Stream stream;
       a.Code(cuStreamAttachMemAsync(stream, 0, 0, CU_MEM_ATTACH_SINGLE));
       a.Code("wait", cuStreamSynchronize(stream));
     }},
};

}  // namespace

std::span<const Case> ManagedCases() { return kCases; }
