// cuMemGetInfo and cuDeviceTotalMem.
#include "tests/apps/edge_calls/case.h"

namespace {

size_t FreeBytes() {
  size_t free = 0;
  Must(cuMemGetInfo(&free, nullptr), "cuMemGetInfo");
  return free;
}

const Case kCases[] = {
    {"information_null_free",
     [](Answer& a) {
       size_t total = kUntouched;
       a.Code(cuMemGetInfo(nullptr, &total)).Note("total=%s", Touched(total));
     }},
    {"information_null_total",
     [](Answer& a) {
       size_t free = kUntouched;
       a.Code(cuMemGetInfo(&free, nullptr)).Note("free=%s", Touched(free));
     }},
    {"information_null_both", [](Answer& a) { a.Code(cuMemGetInfo(nullptr, nullptr)); }},
    {"information_total_of_device",
     [](Answer& a) {
       size_t free = 0, total = 0, of_device = 0;
       a.Code(cuMemGetInfo(&free, &total)).Code(cuDeviceTotalMem(&of_device, 0));
       a.Note("same=%d enough=%d", total == of_device, free <= total);
     }},
    {"information_follows_a_large_allocation",
     [](Answer& a) {
       const size_t before = FreeBytes();
       size_t during = 0;
       {
         const Memory m(kLarge);
         during = FreeBytes();
       }
       const size_t taken = before - during;
       a.Note("taken=%d", taken >= kLarge && taken < kLarge + (64 << 20));
       a.Note("given_back=%d", FreeBytes() >= during + kLarge);
     }},
    {"device_total_null", [](Answer& a) { a.Code(cuDeviceTotalMem(nullptr, 0)); }},
    {"device_total_no_device",
     [](Answer& a) {
       size_t total = kUntouched;
       a.Code(cuDeviceTotalMem(&total, 99)).Code(cuDeviceTotalMem(&total, -1));
       a.Note("total=%s", Touched(total));
     }},
};

}  // namespace

std::span<const Case> InformationCases() { return kCases; }
