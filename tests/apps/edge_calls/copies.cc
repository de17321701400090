// cuMemcpy*: the ends of allocations, between allocations, in rows, and what is no memory.
#include <cstring>

#include "tests/apps/edge_calls/case.h"

namespace {

char from_host[8 << 20], to_host[8 << 20];

void InEnds(Answer& a, size_t bytes) {
  const Memory m(bytes);
  a.Code("whole", cuMemcpyHtoD(m, from_host, bytes));
  a.Code("one_more", cuMemcpyHtoD(m, from_host, bytes + 1));
  a.Code("moved", cuMemcpyHtoD(m + 1, from_host, bytes));
  a.Code("at_end", cuMemcpyHtoD(m.end(), from_host, 1));
}

void OutEnds(Answer& a, size_t bytes) {
  const Memory m(bytes);
  a.Code("whole", cuMemcpyDtoH(to_host, m, bytes));
  a.Code("one_more", cuMemcpyDtoH(to_host, m, bytes + 1));
  a.Code("moved", cuMemcpyDtoH(to_host, m + 1, bytes));
  a.Code("at_end", cuMemcpyDtoH(to_host, m.end(), 1));
}

void BetweenEnds(Answer& a, size_t bytes) {
  const Memory from(bytes), to(bytes + (1 << 20));
  a.Code("whole", cuMemcpyDtoD(to, from, bytes));
  a.Code("source_one_more", cuMemcpyDtoD(to, from, bytes + 1));
  a.Code("target_one_more", cuMemcpyDtoD(from, to, bytes + 1));
  a.Code("target_at_end", cuMemcpyDtoD(from.end(), to, 1));
}

// Rows from one allocation to another.
CUDA_MEMCPY2D Rows(CUdeviceptr to, CUdeviceptr from, size_t pitch, size_t width, size_t height) {
  CUDA_MEMCPY2D rows;
  memset(&rows, 0, sizeof rows);
  rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = from;
  rows.dstDevice = to;
  rows.srcPitch = rows.dstPitch = pitch;
  rows.WidthInBytes = width;
  rows.Height = height;
  return rows;
}

CUDA_MEMCPY3D Box(CUdeviceptr to, CUdeviceptr from, size_t height, size_t depth) {
  CUDA_MEMCPY3D box;
  memset(&box, 0, sizeof box);
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = from;
  box.dstDevice = to;
  box.srcPitch = box.dstPitch = 256;
  box.srcHeight = box.dstHeight = height;
  box.WidthInBytes = 256;
  box.Height = height;
  box.Depth = depth;
  return box;
}

const Case kCases[] = {
    {"copy_in_ends_small", [](Answer& a) { InEnds(a, kSmall); }},
    {"copy_in_ends_middle", [](Answer& a) { InEnds(a, kMiddle); }},
    {"copy_in_ends_granule", [](Answer& a) { InEnds(a, 4 << 20); }},
    {"copy_out_ends_small", [](Answer& a) { OutEnds(a, kSmall); }},
    {"copy_out_ends_middle", [](Answer& a) { OutEnds(a, kMiddle); }},
    {"copy_out_ends_granule", [](Answer& a) { OutEnds(a, 4 << 20); }},
    {"copy_between_ends_small", [](Answer& a) { BetweenEnds(a, kSmall); }},
    {"copy_between_ends_middle", [](Answer& a) { BetweenEnds(a, kMiddle); }},
    {"copy_between_ends_large", [](Answer& a) { BetweenEnds(a, kLarge); }},
    {"copy_nothing",
     [](Answer& a) {
       const Memory m(kSmall);
       a.Code("in", cuMemcpyHtoD(m, from_host, 0)).Code("out", cuMemcpyDtoH(to_host, m, 0));
       a.Code("at_end", cuMemcpyHtoD(m.end(), from_host, 0));
       a.Code("null", cuMemcpyHtoD(0, from_host, 0)).Code("nulls", cuMemcpyDtoD(0, 0, 0));
     }},
    {"copy_null",
     [](Answer& a) {
       const Memory m(kSmall);
       a.Code("in", cuMemcpyHtoD(0, from_host, 10)).Code("out", cuMemcpyDtoH(to_host, 0, 10));
       a.Code("in_from", cuMemcpyHtoD(m, nullptr, 10)).Code("out_to", cuMemcpyDtoH(nullptr, m, 10));
       a.Code("between", cuMemcpyDtoD(m, 0, 10)).Code("unified", cuMemcpy(0, m, 10));
     }},
    {"copy_huge",
     [](Answer& a) {
       const Memory m(kMiddle), n(kMiddle);
       a.Code("in", cuMemcpyHtoD(m, from_host, size_t(1) << 40));
       a.Code("between", cuMemcpyDtoD(m, n, size_t(1) << 40));
     }},
    {"copy_freed",
     [](Answer& a) {
       const Freed freed(kMiddle);
       a.Code("in", cuMemcpyHtoD(freed, from_host, 10));
       a.Code("out", cuMemcpyDtoH(to_host, freed, 10));
     }},
    {"copy_freed_small",
     [](Answer& a) {
       const Freed freed(kSmall);
       a.Code("in", cuMemcpyHtoD(freed, from_host, 10));
       a.Code("out", cuMemcpyDtoH(to_host, freed, 10));
     }},
    {"copy_freed_large",
     [](Answer& a) {
       const Freed freed(kLarge);
       a.Code("in", cuMemcpyHtoD(freed, from_host, 10));
       a.Code("out", cuMemcpyDtoH(to_host, freed, 10));
     }},
    {"copy_low_address",
     [](Answer& a) {
       a.Code(cuMemcpyHtoD(16, from_host, 10)).Code(cuMemcpyDtoH(to_host, 16, 10));
     }},
    {"copy_overlapping",
     [](Answer& a) {
       const Memory m(kMiddle);
       a.Code(cuMemcpyDtoD(m + 100, m, 1 << 20)).Code("itself", cuMemcpyDtoD(m, m, kMiddle));
     }},
    {"copy_across_two_allocations",
     [](Answer& a) {
       const Memory m(512), n(512);
       a.Code(cuMemcpyHtoD(m < n ? m : n, from_host, 1024));
     }},
    {"copy_across_512_mib",
     [](Answer& a) {
       const Memory m(kLarge);
       a.Code("in", cuMemcpyHtoD(m + (510 << 20), from_host, 4 << 20));
       a.Code("between", cuMemcpyDtoD(m, m + (500 << 20), 100 << 20));
     }},
    {"copy_unified",
     [](Answer& a) {
       const Memory m(kSmall);
       a.Code("in", cuMemcpy(m, AsDevice(from_host), kSmall));
       a.Code("out", cuMemcpy(AsDevice(to_host), m, kSmall));
       a.Code("one_more", cuMemcpy(m, AsDevice(from_host), kSmall + 1));
       a.Code("host", cuMemcpy(AsDevice(to_host), AsDevice(from_host), 100));
     }},
    {"copy_unified_async",
     [](Answer& a) {
       const Memory m(kSmall);
       const Stream stream;
       a.Code("in", cuMemcpyAsync(m, AsDevice(from_host), kSmall, stream));
       a.Code("one_more", cuMemcpyAsync(m, AsDevice(from_host), kSmall + 1, stream));
       a.Code("wait", cuStreamSynchronize(stream));
     }},
    {"copy_async_ends",
     [](Answer& a) {
       const Memory m(kMiddle), n(kMiddle);
       const Stream stream;
       a.Code("in", cuMemcpyHtoDAsync(m, from_host, kMiddle + 1, stream));
       a.Code("out", cuMemcpyDtoHAsync(to_host, m, kMiddle + 1, stream));
       a.Code("between", cuMemcpyDtoDAsync(m, n, kMiddle + 1, stream));
       a.Code("at_end", cuMemcpyDtoDAsync(m.end(), n, 1, stream));
       a.Code("nothing", cuMemcpyDtoDAsync(m.end(), n, 0, stream));
       a.Code("wait", cuStreamSynchronize(stream));
     }},
    {"copy_peer",
     [](Answer& a) {
       const Memory m(kSmall), n(kSmall);
       const CUcontext p = PrimaryContext();
       a.Code("whole", cuMemcpyPeer(m, p, n, p, kSmall));
       a.Code("one_more", cuMemcpyPeer(m, p, n, p, kSmall + 1));
       a.Code("no_contexts", cuMemcpyPeer(m, nullptr, n, nullptr, kSmall));
     }},
    {"copy_rows",
     [](Answer& a) {
       const Memory m(4096), n(4096);
       CUDA_MEMCPY2D rows = Rows(m, n, 512, 500, 8);
       a.Code("fits", cuMemcpy2D(&rows));
       rows = Rows(m, n, 512, 500, 9);
       a.Code("row_too_many", cuMemcpy2D(&rows)).Code("unaligned", cuMemcpy2DUnaligned(&rows));
       rows = Rows(m, n, 100, 200, 4);
       a.Code("pitch_below_width", cuMemcpy2D(&rows));
       rows = Rows(m, n, 512, 0, 4);
       a.Code("no_width", cuMemcpy2D(&rows));
       rows = Rows(m, n, 512, 4, 0);
       a.Code("no_rows", cuMemcpy2D(&rows));
     }},
    {"copy_rows_beginning_inside",
     [](Answer& a) {
       const Memory m(4096), n(4096);
       CUDA_MEMCPY2D rows = Rows(m, n, 512, 500, 4);
       rows.dstY = 4;
       a.Code("fits", cuMemcpy2D(&rows));
       rows.dstY = 5;
       a.Code("past", cuMemcpy2D(&rows));
       rows.dstY = 4;
       rows.dstXInBytes = 100;
       a.Code("wide", cuMemcpy2D(&rows));
     }},
    {"copy_rows_null", [](Answer& a) { a.Code(cuMemcpy2D(nullptr)); }},
    {"copy_rows_bad_type",
     [](Answer& a) {
       const Memory m(4096), n(4096);
       CUDA_MEMCPY2D rows = Rows(m, n, 512, 500, 8);
       rows.srcMemoryType = static_cast<CUmemorytype>(0);
       a.Code(cuMemcpy2D(&rows));
       rows.srcMemoryType = static_cast<CUmemorytype>(9);
       a.Code(cuMemcpy2D(&rows));
     }},
    {"copy_rows_freed",
     [](Answer& a) {
       const Memory m(4096);
       const Freed freed(kMiddle);
       const CUDA_MEMCPY2D rows = Rows(freed, m, 512, 500, 8);
       a.Code(cuMemcpy2D(&rows));
     }},
    {"copy_box",
     [](Answer& a) {
       const Memory m(8192), n(8192);
       CUDA_MEMCPY3D box = Box(m, n, 4, 8);
       a.Code("fits", cuMemcpy3D(&box));
       box = Box(m, n, 4, 9);
       a.Code("too_deep", cuMemcpy3D(&box));
       box = Box(m, n, 4, 0);
       a.Code("flat", cuMemcpy3D(&box));
     }},
};

}  // namespace

std::span<const Case> CopyCases() { return kCases; }
