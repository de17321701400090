// Values for tests of encodings: of every magnitude, and those at the edges of a rounding.
#pragma once

#include <bit>
#include <cstdint>

#include "common/store/encoding.h"

namespace parkade::shim {

// Finite, unless `wild`: then one in 64 is infinite or NaN. A pure function of both numbers.
inline float AnyFloat(uint64_t salt, uint64_t i, bool wild = false) {
  using store::FloatOf;
  const uint64_t bits = store::Mix(store::Mix(salt) + i);
  const auto low = uint32_t(bits);
  const uint32_t sign = low & 0x80000000u;
  if (wild && bits >> 58 == 63) {
    const uint32_t odd[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u, 0xffffffffu};
    return FloatOf(odd[low % 5]);
  }
  switch (bits >> 59) {
    case 0:
      return FloatOf(sign);  // both zeroes
    case 1:
      return FloatOf(sign | (low & 0x7fffffu));  // denormal
    case 2: {
      const uint32_t ties[] = {0x3f808000u, 0x3f7f8000u, 0x3f818000u, 0x3f807fffu, 0x3f808001u};
      return FloatOf(sign | ties[low % 5]);
    }
    case 3: {
      const uint32_t edges[] = {1u,          0x007fffffu, 0x00800000u, 0x7f7fffffu,
                                0x7f7f8000u, 0x477fe000u, 0x477fefffu, 0x477ff000u,
                                0x33000000u, 0x33000001u, 0x38800000u};
      return FloatOf(sign | edges[low % 11]);
    }
    case 4:  // halfway between two bf16, whatever they are
      return FloatOf((low & 0xbfff0000u) | 0x8000u);
    case 5:
    case 6:
    case 7:  // every exponent
      return FloatOf((low & 0x7f800000u) == 0x7f800000u ? low ^ 0x40000000u : low);
    default:  // what training has: 2^-32 to 2
      return FloatOf(sign | (95 + uint32_t(bits >> 40) % 32) << 23 | (low & 0x7fffffu));
  }
}

// AnyFloat with a magnitude below 2^`most`; smaller powers stay.
inline float Below(int most, float x) {
  const uint32_t bits = store::BitsOf(x), exponent = bits >> 23 & 255u;
  const auto end = uint32_t(127 + most);
  if (exponent < end) return x;
  return store::FloatOf((bits & 0x807fffffu) | (end - 1 - exponent % 32) << 23);
}

// As `x`, but such as the encoding holds.
inline float Held(store::Encoding encoding, float x) {
  using store::Encoding;
  if (!store::IsFinite(x)) x = store::FloatOf(store::BitsOf(x) ^ 0x40000000u);
  if (encoding == Encoding::kFp16) return store::FitsFp16(x) ? x : Below(15, x);
  const bool second = encoding == Encoding::kQ8Second || encoding == Encoding::kFp8Second;
  return second ? store::Magnitude(x) : x;
}

}  // namespace parkade::shim
