// The tie map of a lo16 segment in bytes: which halfway values were rounded away from zero.
//
// In memory it is one bit for each position (bit i % 32 of word i / 32). In a file it is a list of
// the set positions, ascending, four bytes each, or where that would be longer the bits themselves;
// how many are set stands in the bucket's record. For ordinary values one in 131,072 is.
#pragma once

#include <cstdint>
#include <span>

#include "common/bytes.h"
#include "common/result.h"

namespace parkade::store {

// Bytes of the bits of `numel` positions, a multiple of 32: the most that a map takes.
constexpr Bytes TieBitsBytes(uint64_t numel) { return numel / 8; }
// Bytes of the map with `count` bits set; a reader needs no more of the area. 0 for none.
Bytes TieMapBytes(uint32_t count, uint64_t numel);

// How many bits are set.
uint32_t CountTies(std::span<const uint32_t> bits);
// Writes the map with `count` bits set into `out`, of TieMapBytes.
void PackTies(std::span<const uint32_t> bits, uint32_t count, std::span<uint8_t> out);
// The reverse, into all of `bits`. DATA_LOSS BAD_TIE_MAP when positions are out of order or range,
// or another number of bits is set than `count`.
Result<void> UnpackTies(std::span<const uint8_t> bytes, uint32_t count, std::span<uint32_t> bits);

}  // namespace parkade::store
