// cuMemAllocPitch: element sizes, widths, overflows.
#include "tests/apps/edge_calls/case.h"

namespace {

void Allocate(Answer& a, size_t width, size_t height, unsigned element_bytes) {
  CUdeviceptr p = kUntouched;
  size_t pitch = kUntouched;
  const CUresult r = cuMemAllocPitch(&p, &pitch, width, height, element_bytes);
  a.Code(r).Note("out=%s", Touched(p));
  if (r != CUDA_SUCCESS) {
    a.Note("pitch=%s", Touched(pitch));
    return;
  }
  size_t size = 0;
  a.Note("pitch=%zu", pitch).Code("range", cuMemGetAddressRange(nullptr, &size, p));
  a.Note("size=%zu", size).Code("free", cuMemFree(p));
}

const Case kCases[] = {
    {"pitch_null_out",
     [](Answer& a) {
       size_t pitch = kUntouched;
       a.Code(cuMemAllocPitch(nullptr, &pitch, 100, 10, 4)).Note("pitch=%s", Touched(pitch));
     }},
    {"pitch_null_pitch",
     [](Answer& a) {
       CUdeviceptr p = kUntouched;
       a.Code(cuMemAllocPitch(&p, nullptr, 100, 10, 4)).Note("out=%s", Touched(p));
     }},
    {"pitch_zero_width", [](Answer& a) { Allocate(a, 0, 10, 4); }},
    {"pitch_zero_height", [](Answer& a) { Allocate(a, 100, 0, 4); }},
    {"pitch_zero_both", [](Answer& a) { Allocate(a, 0, 0, 4); }},
    {"pitch_element_0", [](Answer& a) { Allocate(a, 100, 10, 0); }},
    {"pitch_element_1", [](Answer& a) { Allocate(a, 100, 10, 1); }},
    {"pitch_element_2", [](Answer& a) { Allocate(a, 100, 10, 2); }},
    {"pitch_element_3", [](Answer& a) { Allocate(a, 100, 10, 3); }},
    {"pitch_element_8", [](Answer& a) { Allocate(a, 100, 10, 8); }},
    {"pitch_element_16", [](Answer& a) { Allocate(a, 100, 10, 16); }},
    {"pitch_element_32", [](Answer& a) { Allocate(a, 100, 10, 32); }},
    {"pitch_element_huge", [](Answer& a) { Allocate(a, 100, 10, 0xffffffff); }},
    {"pitch_width_1", [](Answer& a) { Allocate(a, 1, 3, 4); }},
    {"pitch_width_31", [](Answer& a) { Allocate(a, 31, 3, 4); }},
    {"pitch_width_33", [](Answer& a) { Allocate(a, 33, 3, 4); }},
    {"pitch_width_511", [](Answer& a) { Allocate(a, 511, 3, 4); }},
    {"pitch_width_512", [](Answer& a) { Allocate(a, 512, 3, 4); }},
    {"pitch_width_513", [](Answer& a) { Allocate(a, 513, 3, 4); }},
    {"pitch_width_1000_one_row", [](Answer& a) { Allocate(a, 1000, 1, 4); }},
    {"pitch_width_100000", [](Answer& a) { Allocate(a, 100000, 100, 16); }},
    {"pitch_width_huge", [](Answer& a) { Allocate(a, SIZE_MAX - 5, 2, 4); }},
    {"pitch_width_huge_one_row", [](Answer& a) { Allocate(a, SIZE_MAX - 600, 1, 4); }},
    {"pitch_height_huge", [](Answer& a) { Allocate(a, 100, SIZE_MAX, 4); }},
    {"pitch_product_wraps", [](Answer& a) { Allocate(a, size_t(1) << 33, size_t(1) << 31, 4); }},
    {"pitch_product_32_tib", [](Answer& a) { Allocate(a, size_t(1) << 25, size_t(1) << 20, 4); }},
};

}  // namespace

std::span<const Case> PitchedCases() { return kCases; }
