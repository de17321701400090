// Virtual memory management on memory of cuMemAlloc, which has none of it; the memory works on.
#include "tests/apps/edge_calls/case.h"

namespace {

constexpr size_t kGranule = 2 << 20;
constexpr CUmemLocation kDevice = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

// The granule that lies wholly inside `m`.
CUdeviceptr Inside(const Memory& m) { return (m + kGranule - 1) / kGranule * kGranule; }

void StillWorks(Answer& a, const Memory& m) {
  a.Code("fill", cuMemsetD8(m, 7, m.bytes()));
  unsigned char last = 0;
  a.Code("copy", cuMemcpyDtoH(&last, m.end() - 1, 1)).Note("last=%d", last);
}

template <typename Call>
void OnEach(Answer& a, Call call) {
  for (size_t bytes : {size_t(6) << 20, kLarge}) {
    const Memory m(bytes);
    a.Code(call(m));
    StillWorks(a, m);
  }
}

const Case kCases[] = {
    {"unmap_granule",
     [](Answer& a) { OnEach(a, [](const Memory& m) { return cuMemUnmap(Inside(m), kGranule); }); }},
    {"unmap_base",
     [](Answer& a) { OnEach(a, [](const Memory& m) { return cuMemUnmap(m, m.bytes()); }); }},
    {"unmap_512_mib",
     [](Answer& a) {
       const Memory m(kLarge);
       a.Code(cuMemUnmap(m, 512 << 20));
       StillWorks(a, m);
     }},
    {"unmap_null", [](Answer& a) { a.Code(cuMemUnmap(0, kGranule)); }},
    {"set_access_granule",
     [](Answer& a) {
       OnEach(a, [](const Memory& m) {
         const CUmemAccessDesc none = {kDevice, CU_MEM_ACCESS_FLAGS_PROT_NONE};
         return cuMemSetAccess(Inside(m), kGranule, &none, 1);
       });
     }},
    {"set_access_base",
     [](Answer& a) {
       OnEach(a, [](const Memory& m) {
         const CUmemAccessDesc none = {kDevice, CU_MEM_ACCESS_FLAGS_PROT_NONE};
         return cuMemSetAccess(m, 512 << 20, &none, 1);
       });
     }},
    {"get_access",
     [](Answer& a) {
       for (size_t bytes : {kSmall, kMiddle, kLarge}) {
         const Memory m(bytes);
         unsigned long long flags = 77;
         a.Code(cuMemGetAccess(&flags, &kDevice, m)).Note("flags=%llu", flags);
       }
     }},
    {"get_access_freed",
     [](Answer& a) {
       unsigned long long flags = 77;
       a.Code(cuMemGetAccess(&flags, &kDevice, Freed(kMiddle))).Note("flags=%llu", flags);
     }},
    {"address_free",
     [](Answer& a) { OnEach(a, [](const Memory& m) { return cuMemAddressFree(m, m.bytes()); }); }},
    {"map_over",
     [](Answer& a) {
       CUmemAllocationProp prop = {};
       prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
       prop.location = kDevice;
       CUmemGenericAllocationHandle handle = 0;
       Must(cuMemCreate(&handle, kGranule, &prop, 0), "cuMemCreate");
       OnEach(a, [&](const Memory& m) { return cuMemMap(Inside(m), kGranule, 0, handle, 0); });
       Must(cuMemRelease(handle), "cuMemRelease");
     }},
    {"reserve_there",
     [](Answer& a) {
       const Memory m(kLarge);
       CUdeviceptr p = 0;
       a.Code(cuMemAddressReserve(&p, kGranule, 0, Inside(m), 0));
       a.Note("elsewhere=%d", p < m || p >= m.end()).Code("free", cuMemAddressFree(p, kGranule));
     }},
    {"release_no_handle", [](Answer& a) { a.Code(cuMemRelease(0)); }},
    {"flush_rdma_writes",
     [](Answer& a) {
       a.Code(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                         CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
     }},
};

}  // namespace

std::span<const Case> MappingCases() { return kCases; }
