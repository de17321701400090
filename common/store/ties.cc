// Packs and unpacks tie maps.
#include "common/store/ties.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace parkade::store {

Bytes TieMapBytes(uint32_t count, uint64_t numel) {
  const Bytes list = Bytes{count} * 4, bits = TieBitsBytes(numel);
  return list < bits ? list : bits;
}

uint32_t CountTies(std::span<const uint32_t> bits) {
  uint32_t count = 0;
  for (const uint32_t word : bits) count += uint32_t(std::popcount(word));
  return count;
}

void PackTies(std::span<const uint32_t> bits, uint32_t count, std::span<uint8_t> out) {
  if (count == 0) return;
  if (Bytes{count} * 4 >= bits.size_bytes()) {
    memcpy(out.data(), bits.data(), bits.size_bytes());
    return;
  }
  uint8_t* at = out.data();
  for (size_t word = 0; word < bits.size(); ++word) {
    for (uint32_t left = bits[word]; left != 0; left &= left - 1) {
      const uint32_t position = uint32_t(word * 32 + size_t(std::countr_zero(left)));
      memcpy(at, &position, sizeof position);
      at += sizeof position;
    }
  }
}

Result<void> UnpackTies(std::span<const uint8_t> bytes, uint32_t count, std::span<uint32_t> bits) {
  if (count > 0 && Bytes{count} * 4 >= bits.size_bytes()) {
    memcpy(bits.data(), bytes.data(), bits.size_bytes());
    const uint32_t set = CountTies(bits);
    if (set == count) return {};
    return MakeError(Code::kDataLoss, "BAD_TIE_MAP", "tie map: %u bits are set, %u were recorded",
                     set, count);
  }
  std::fill(bits.begin(), bits.end(), 0u);
  uint64_t next = 0;  // the least that the next position may be
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t position;
    memcpy(&position, bytes.data() + size_t{i} * 4, sizeof position);
    if (position < next || position / 32 >= bits.size()) {
      return MakeError(Code::kDataLoss, "BAD_TIE_MAP",
                       "tie map: entry %u is position %u, out of order or of range", i, position);
    }
    bits[position / 32] |= 1u << position % 32;
    next = uint64_t{position} + 1;
  }
  return {};
}

}  // namespace parkade::store
