// cuMemset*: the ends of allocations, pitches, alignment, and what is no memory.
#include "tests/apps/edge_calls/case.h"

namespace {

// Fills of whole allocations, of one byte more, and of one that begins at the end.
void Ends(Answer& a, size_t bytes) {
  const Memory m(bytes);
  a.Code("whole", cuMemsetD8(m, 1, bytes)).Code("one_more", cuMemsetD8(m, 1, bytes + 1));
  a.Code("moved", cuMemsetD8(m + 1, 1, bytes)).Code("at_end", cuMemsetD8(m.end(), 1, 1));
  a.Code("last", cuMemsetD8(m.end() - 1, 1, 1));
}

void EndsAsync(Answer& a, size_t bytes) {
  const Memory m(bytes);
  const Stream stream;
  a.Code("whole", cuMemsetD8Async(m, 1, bytes, stream));
  a.Code("one_more", cuMemsetD8Async(m, 1, bytes + 1, stream));
  a.Code("at_end", cuMemsetD8Async(m.end(), 1, 1, stream));
  a.Code("wait", cuStreamSynchronize(stream));
}

const Case kCases[] = {
    {"fill_ends_small", [](Answer& a) { Ends(a, kSmall); }},
    {"fill_ends_block", [](Answer& a) { Ends(a, 4096); }},
    {"fill_ends_middle", [](Answer& a) { Ends(a, kMiddle); }},
    {"fill_ends_granule", [](Answer& a) { Ends(a, 4 << 20); }},
    {"fill_ends_large", [](Answer& a) { Ends(a, kLarge); }},
    {"fill_ends_large_granule", [](Answer& a) { Ends(a, 40 << 20); }},
    {"fill_async_ends_small", [](Answer& a) { EndsAsync(a, kSmall); }},
    {"fill_async_ends_middle", [](Answer& a) { EndsAsync(a, kMiddle); }},
    {"fill_async_ends_large_granule", [](Answer& a) { EndsAsync(a, 40 << 20); }},
    {"fill_next_page",
     [](Answer& a) {
       const Memory m(kSmall);
       a.Code(cuMemsetD8(m, 1, 3 * 4096)).Code(cuMemsetD8(m + 3 * 4096, 1, 1));
     }},
    // Not to SIZE_MAX: there the driver (580) does not look, and the GPU faults.
    {"fill_far_past_the_end",
     [](Answer& a) {
       const Memory m(kMiddle);
       a.Code(cuMemsetD8(m, 1, size_t(1) << 40)).Code(cuMemsetD32(m, 1, size_t(1) << 38));
     }},
    {"fill_nothing",
     [](Answer& a) {
       const Memory m(kSmall);
       a.Code("base", cuMemsetD8(m, 1, 0)).Code("end", cuMemsetD8(m.end(), 1, 0));
       a.Code("null", cuMemsetD8(0, 1, 0)).Code("low", cuMemsetD8(16, 1, 0));
     }},
    {"fill_null", [](Answer& a) { a.Code(cuMemsetD8(0, 1, 16)); }},
    {"fill_low_address", [](Answer& a) { a.Code(cuMemsetD8(16, 1, 16)); }},
    {"fill_freed", [](Answer& a) { a.Code(cuMemsetD8(Freed(kMiddle), 1, 16)); }},
    {"fill_freed_small", [](Answer& a) { a.Code(cuMemsetD8(Freed(kSmall), 1, 16)); }},
    {"fill_freed_large", [](Answer& a) { a.Code(cuMemsetD8(Freed(kLarge), 1, 16)); }},
    {"fill_pinned_host_memory",
     [](Answer& a) {
       void* pinned = nullptr;
       Must(cuMemAllocHost(&pinned, kSmall), "cuMemAllocHost");
       a.Code(cuMemsetD8(AsDevice(pinned), 1, kSmall));
       Must(cuMemFreeHost(pinned), "cuMemFreeHost");
     }},
    {"fill_16_unaligned",
     [](Answer& a) {
       const Memory m(kSmall);
       a.Code(cuMemsetD16(m + 1, 1, 4));
     }},
    {"fill_32_unaligned",
     [](Answer& a) {
       const Memory m(kSmall);
       a.Code(cuMemsetD32(m + 2, 1, 4)).Code(cuMemsetD32(m + 1, 1, 0));
     }},
    {"fill_32_past_the_end",
     [](Answer& a) {
       const Memory m(4096);
       a.Code(cuMemsetD32(m, 1, 1024)).Code(cuMemsetD32(m, 1, 1025));
     }},
    {"fill_across_512_mib",
     [](Answer& a) {
       const Memory m(kLarge);
       a.Code(cuMemsetD8(m + (500 << 20), 1, 50 << 20));
     }},
    {"fill_rows",
     [](Answer& a) {
       const Memory m(4096);
       a.Code("fits", cuMemsetD2D8(m, 512, 1, 500, 8));
       a.Code("short_last_row", cuMemsetD2D8(m, 512, 1, 512, 8));
       a.Code("row_too_many", cuMemsetD2D8(m, 512, 1, 500, 9));
     }},
    {"fill_rows_pitch_below_width",
     [](Answer& a) {
       const Memory m(4096);
       a.Code(cuMemsetD2D8(m, 100, 1, 200, 4)).Code(cuMemsetD2D8(m, 0, 1, 200, 4));
       a.Code("one_row", cuMemsetD2D8(m, 0, 1, 200, 1));
     }},
    {"fill_rows_nothing",
     [](Answer& a) {
       const Memory m(4096);
       a.Code(cuMemsetD2D8(m, 512, 1, 0, 8)).Code(cuMemsetD2D8(m, 512, 1, 8, 0));
       a.Code(cuMemsetD2D8(0, 512, 1, 0, 0));
     }},
    {"fill_rows_32_odd_pitch",
     [](Answer& a) {
       const Memory m(4096);
       a.Code(cuMemsetD2D32(m, 510, 1, 10, 4)).Code(cuMemsetD2D32(m + 2, 512, 1, 10, 4));
     }},
    {"fill_rows_16_odd_pitch",
     [](Answer& a) {
       const Memory m(4096);
       a.Code(cuMemsetD2D16(m, 511, 1, 10, 4));
     }},
};

}  // namespace

std::span<const Case> FillCases() { return kCases; }
