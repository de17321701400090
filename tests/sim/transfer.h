// Copies and fills as streams run them: in pieces, each checked before it is touched.
#pragma once

#include <cstdint>

#include "tests/sim/driver.h"

namespace parkade::sim {

// A rectangle of memory: `rows` rows of `width` bytes, `pitch` bytes apart; a plain range has one
// row.
struct Area {
  Address base = 0;
  Bytes pitch = 0;
};

struct Copy {
  Area to;
  Area from;
  Bytes width = 0;
  Bytes rows = 1;
};

// What a call can see of an area before its work is submitted: INVALID_VALUE when device memory in
// it cannot be touched, or when it is not device memory where that is wanted. Virtual memory is
// seen as `gpu` may; native memory can be copied whichever GPU's context is current (580).
enum class Wanted { kDevice, kAny };
CUresult CheckArea(const Area& area, Bytes width, Bytes rows, Wanted wanted, bool write,
                   int gpu = AddressSpace::kAnyGpu);

// ILLEGAL_ADDRESS when either side is device memory that cannot be touched. On a stream's thread.
CUresult RunCopy(const Copy& copy);

// Fills the rows of `to` with `unit_bytes` (1, 2 or 4) of `value`, over and over. As RunCopy.
CUresult RunFill(const Area& to, Bytes width, Bytes rows, uint32_t value, Bytes unit_bytes);

}  // namespace parkade::sim
