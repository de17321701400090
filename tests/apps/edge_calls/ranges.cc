// cuMemGetAddressRange, cuMemGetHandleForAddressRange and cuMemRetainAllocationHandle.
#include <unistd.h>

#include "tests/apps/edge_calls/case.h"

namespace {

void Range(Answer& a, CUdeviceptr base, CUdeviceptr at) {
  CUdeviceptr start = kUntouched;
  size_t size = kUntouched;
  a.Code(cuMemGetAddressRange(&start, &size, at));
  a.Note("start=%s", From(base, start).c_str());
  if (size == kUntouched) {
    a.Note("size=untouched");
  } else {
    a.Note("size=%zu", size);
  }
}

// A descriptor for [at, at + bytes), closed again.
void Descriptor(Answer& a, CUdeviceptr at, size_t bytes,
                CUmemRangeHandleType type = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                unsigned long long flags = 0) {
  int fd = -5;
  a.Code(cuMemGetHandleForAddressRange(&fd, at, bytes, type, flags));
  a.Note("fd=%s", fd >= 0 ? "open" : fd == -5 ? "untouched" : "none");
  if (fd >= 0) close(fd);
}

void Retain(Answer& a, CUdeviceptr at) {
  CUmemGenericAllocationHandle handle = kUntouched;
  const CUresult r = cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(at));
  a.Code(r).Note("out=%s", Touched(handle));
  if (r == CUDA_SUCCESS) a.Code("release", cuMemRelease(handle));
}

constexpr size_t kPage = 4096;

const Case kCases[] = {
    {"range_small",
     [](Answer& a) {
       const Memory m(kSmall);
       for (size_t offset : {size_t(0), size_t(100), kSmall - 1, kSmall}) Range(a, m, m + offset);
     }},
    {"range_middle",
     [](Answer& a) {
       const Memory m(kMiddle);
       for (size_t offset : {size_t(0), size_t(2) << 20, kMiddle - 1, kMiddle})
         Range(a, m, m + offset);
     }},
    {"range_large",
     [](Answer& a) {
       const Memory m(kLarge);
       for (size_t offset : {size_t(0), size_t(511) << 20, size_t(512) << 20, kLarge - 1, kLarge})
         Range(a, m, m + offset);
     }},
    {"range_freed", [](Answer& a) { Range(a, 0, Freed(kSmall)); }},
    {"range_freed_middle", [](Answer& a) { Range(a, 0, Freed(kMiddle)); }},
    {"range_freed_large", [](Answer& a) { Range(a, 0, Freed(kLarge)); }},
    {"range_null", [](Answer& a) { Range(a, 0, 0); }},
    {"range_host_memory", [](Answer& a) { Range(a, AsDevice(host_bytes), AsDevice(host_bytes)); }},
    {"range_pinned_host_memory",
     [](Answer& a) {
       void* pinned = nullptr;
       Must(cuMemAllocHost(&pinned, kSmall), "cuMemAllocHost");
       Range(a, AsDevice(pinned), AsDevice(pinned) + 10);
       Must(cuMemFreeHost(pinned), "cuMemFreeHost");
     }},
    {"range_managed_memory",
     [](Answer& a) {
       CUdeviceptr p = 0;
       Must(cuMemAllocManaged(&p, kSmall, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
       Range(a, p, p + 10);
       Must(cuMemFree(p), "cuMemFree");
     }},
    {"range_null_outs",
     [](Answer& a) {
       const Memory m(kSmall);
       CUdeviceptr start = kUntouched;
       size_t size = kUntouched;
       a.Code(cuMemGetAddressRange(nullptr, &size, m + 7)).Note("size=%zu", size);
       a.Code(cuMemGetAddressRange(&start, nullptr, m + 7));
       a.Note("start=%s", From(m, start).c_str());
       a.Code(cuMemGetAddressRange(nullptr, nullptr, m + 7));
     }},
    {"range_null_outs_freed",
     [](Answer& a) { a.Code(cuMemGetAddressRange(nullptr, nullptr, Freed(kMiddle))); }},
    {"descriptor_granule",
     [](Answer& a) {
       const Memory m(4 << 20);
       Descriptor(a, m, 2 << 20);
     }},
    {"descriptor_whole",
     [](Answer& a) {
       const Memory m(4 << 20);
       Descriptor(a, m, 4 << 20);
     }},
    {"descriptor_whole_large",
     [](Answer& a) {
       const Memory m(600 << 20);
       Descriptor(a, m, 600 << 20);
     }},
    {"descriptor_across_512_mib",
     [](Answer& a) {
       const Memory m(600 << 20);
       Descriptor(a, m + (510 << 20), 4 << 20);
     }},
    {"descriptor_page_inside",
     [](Answer& a) {
       const Memory m(4 << 20);
       Descriptor(a, m + kPage, kPage);
     }},
    {"descriptor_small_allocation",
     [](Answer& a) {
       const Memory m(kSmall);
       Descriptor(a, m, kSmall);
       Descriptor(a, m, kPage);
       Descriptor(a, m, 2 * kPage);
       Descriptor(a, m, 3 * kPage);
     }},
    {"descriptor_last_pages",
     [](Answer& a) {
       const Memory m(kMiddle);
       const size_t pages = (kMiddle + kPage - 1) / kPage * kPage;
       Descriptor(a, m, pages);
       Descriptor(a, m, pages + kPage);
       Descriptor(a, m, 4 << 20);
     }},
    {"descriptor_past_the_end",
     [](Answer& a) {
       const Memory m(4 << 20);
       Descriptor(a, m, (4 << 20) + kPage);
       Descriptor(a, m + kPage, 4 << 20);
       Descriptor(a, m.end(), kPage);
     }},
    {"descriptor_unaligned",
     [](Answer& a) {
       const Memory m(4 << 20);
       Descriptor(a, m + 256, kPage);
       Descriptor(a, m, 100);
     }},
    {"descriptor_zero_bytes",
     [](Answer& a) {
       const Memory m(4 << 20);
       Descriptor(a, m, 0);
     }},
    {"descriptor_huge",
     [](Answer& a) {
       const Memory m(4 << 20);
       Descriptor(a, m, SIZE_MAX);
       Descriptor(a, m, SIZE_MAX - kPage + 1);
     }},
    {"descriptor_null_out",
     [](Answer& a) {
       const Memory m(4 << 20);
       a.Code(cuMemGetHandleForAddressRange(nullptr, m, 2 << 20,
                                            CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
     }},
    {"descriptor_bad_type",
     [](Answer& a) {
       const Memory m(4 << 20);
       Descriptor(a, m, 2 << 20, static_cast<CUmemRangeHandleType>(0));
       Descriptor(a, m, 2 << 20, static_cast<CUmemRangeHandleType>(77));
     }},
    {"descriptor_bad_flags",
     [](Answer& a) {
       const Memory m(4 << 20);
       Descriptor(a, m, 2 << 20, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0x80);
     }},
    {"descriptor_freed", [](Answer& a) { Descriptor(a, Freed(4 << 20), 2 << 20); }},
    {"descriptor_null", [](Answer& a) { Descriptor(a, 0, 2 << 20); }},
    {"retain_base",
     [](Answer& a) {
       const Memory m(kMiddle);
       Retain(a, m);
     }},
    {"retain_small",
     [](Answer& a) {
       const Memory m(kSmall);
       Retain(a, m);
     }},
    {"retain_inside_large",
     [](Answer& a) {
       const Memory m(kLarge);
       Retain(a, m + (550 << 20));
     }},
    {"retain_end",
     [](Answer& a) {
       const Memory m(kSmall);
       Retain(a, m.end());
     }},
    {"retain_freed", [](Answer& a) { Retain(a, Freed(kMiddle)); }},
    {"retain_null", [](Answer& a) { Retain(a, 0); }},
    {"retain_host", [](Answer& a) { Retain(a, AsDevice(host_bytes)); }},
    {"retain_null_out",
     [](Answer& a) {
       const Memory m(kMiddle);
       a.Code(cuMemRetainAllocationHandle(nullptr, reinterpret_cast<void*>(CUdeviceptr(m))));
     }},
};

}  // namespace

std::span<const Case> RangeCases() { return kCases; }
