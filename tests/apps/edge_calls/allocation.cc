// cuMemAlloc and cuMemFree: sizes, pointers, and what is freed.
#include <vector>

#include "tests/apps/edge_calls/case.h"

namespace {

void Allocate(Answer& a, size_t bytes) {
  CUdeviceptr p = kUntouched;
  const CUresult r = cuMemAlloc(&p, bytes);
  a.Code(r).Note("out=%s", Touched(p));
  if (r == CUDA_SUCCESS) a.Code("free", cuMemFree(p));
}

size_t TotalBytes() {
  size_t total = 0;
  Must(cuDeviceTotalMem(&total, 0), "cuDeviceTotalMem");
  return total;
}

// Whether allocations of such sizes begin where texture and vector loads want them.
void Alignment(Answer& a, size_t step) {
  unsigned long long misaligned = 0;
  std::vector<CUdeviceptr> made;
  for (size_t i = 1; i <= 8; ++i) {
    CUdeviceptr p = 0;
    Must(cuMemAlloc(&p, i * step - 1), "cuMemAlloc");
    misaligned |= p % 512;
    made.push_back(p);
  }
  for (CUdeviceptr p : made) Must(cuMemFree(p), "cuMemFree");
  a.Note("modulo512=%llu", misaligned);
}

// Frees what must not be freed, and then the allocation itself.
void FreeAt(Answer& a, size_t bytes, size_t offset) {
  CUdeviceptr p = 0;
  Must(cuMemAlloc(&p, bytes), "cuMemAlloc");
  a.Code("there", cuMemFree(p + offset)).Code("base", cuMemFree(p));
}

const Case kCases[] = {
    {"alloc_zero_bytes", [](Answer& a) { Allocate(a, 0); }},
    {"alloc_null_out", [](Answer& a) { a.Code(cuMemAlloc(nullptr, 100)); }},
    {"alloc_null_out_zero_bytes", [](Answer& a) { a.Code(cuMemAlloc(nullptr, 0)); }},
    {"alloc_null_out_huge", [](Answer& a) { a.Code(cuMemAlloc(nullptr, SIZE_MAX)); }},
    {"alloc_one_byte", [](Answer& a) { Allocate(a, 1); }},
    {"alloc_total", [](Answer& a) { Allocate(a, TotalBytes()); }},
    {"alloc_total_and_one", [](Answer& a) { Allocate(a, TotalBytes() + 1); }},
    {"alloc_32_tib", [](Answer& a) { Allocate(a, size_t(32) << 40); }},
    {"alloc_half_of_all_addresses", [](Answer& a) { Allocate(a, size_t(1) << 63); }},
    {"alloc_size_max_page", [](Answer& a) { Allocate(a, SIZE_MAX - 4095); }},
    {"alloc_size_max", [](Answer& a) { Allocate(a, SIZE_MAX); }},
    {"alloc_alignment_small", [](Answer& a) { Alignment(a, 100); }},
    {"alloc_alignment_pages", [](Answer& a) { Alignment(a, 5000); }},
    {"alloc_alignment_megabytes", [](Answer& a) { Alignment(a, 700 << 10); }},
    {"alloc_alignment_large", [](Answer& a) { Alignment(a, 9 << 20); }},
    {"alloc_two_do_not_overlap",
     [](Answer& a) {
       const Memory one(1), two(1);
       a.Note("apart=%d", one.end() <= two || two.end() <= one);
     }},
    {"alloc_works_after_failures",
     [](Answer& a) {
       CUdeviceptr p = 0;
       a.Code("huge", cuMemAlloc(&p, SIZE_MAX)).Code("none", cuMemAlloc(&p, 0));
       Allocate(a, 4096);
     }},
    {"free_null", [](Answer& a) { a.Code(cuMemFree(0)); }},
    {"free_twice",
     [](Answer& a) {
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kSmall), "cuMemAlloc");
       a.Code("once", cuMemFree(p)).Code("twice", cuMemFree(p));
     }},
    {"free_twice_large",
     [](Answer& a) {
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kLarge), "cuMemAlloc");
       a.Code("once", cuMemFree(p)).Code("twice", cuMemFree(p));
     }},
    {"free_twice_beside_another",
     [](Answer& a) {
       const Freed freed(kMiddle);
       a.Code(cuMemFree(freed));
     }},
    {"free_interior", [](Answer& a) { FreeAt(a, kSmall, 256); }},
    {"free_interior_page", [](Answer& a) { FreeAt(a, 3 << 20, 4096); }},
    {"free_interior_granule", [](Answer& a) { FreeAt(a, kLarge, 2 << 20); }},
    {"free_interior_second_half", [](Answer& a) { FreeAt(a, kLarge, 512 << 20); }},
    {"free_last_byte", [](Answer& a) { FreeAt(a, kSmall, kSmall - 1); }},
    {"free_one_past_the_end", [](Answer& a) { FreeAt(a, kSmall, kSmall); }},
    {"free_low_address", [](Answer& a) { a.Code(cuMemFree(16)); }},
    {"free_highest_address", [](Answer& a) { a.Code(cuMemFree(~CUdeviceptr(0))); }},
    {"free_ordinary_host_memory", [](Answer& a) { a.Code(cuMemFree(AsDevice(host_bytes))); }},
    {"free_pinned_host_memory",
     [](Answer& a) {
       void* pinned = nullptr;
       Must(cuMemAllocHost(&pinned, 4096), "cuMemAllocHost");
       a.Code("cuMemFree", cuMemFree(AsDevice(pinned)));
       a.Code("cuMemFreeHost", cuMemFreeHost(pinned));
     }},
    {"free_managed_memory",
     [](Answer& a) {
       CUdeviceptr p = 0;
       Must(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
       a.Code("once", cuMemFree(p)).Code("twice", cuMemFree(p));
     }},
    {"free_on_another_thread",
     [](Answer& a) {
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kSmall), "cuMemAlloc");
       OnThread(PrimaryContext(), [&] { a.Code(cuMemFree(p)); });
     }},
    {"free_with_work_queued",
     [](Answer& a) {
       const Stream stream;
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, 64 << 20), "cuMemAlloc");
       for (int i = 0; i < 20; ++i) {
         Must(cuMemsetD8Async(p, static_cast<unsigned char>(i), 64 << 20, stream),
              "cuMemsetD8Async");
       }
       a.Code("free", cuMemFree(p)).Code("stream", cuStreamQuery(stream));
     }},
};

}  // namespace

std::span<const Case> AllocationCases() { return kCases; }
