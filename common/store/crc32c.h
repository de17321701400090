// CRC-32C (Castagnoli, RFC 3720 appendix B.4) for records and headers: short, so a table will do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace parkade::store {

inline constexpr std::array<uint32_t, 256> kCrc32cTable = [] {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    table[i] = crc;
  }
  return table;
}();

inline uint32_t Crc32c(const void* memory, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(memory);
  uint32_t crc = ~0u;
  for (size_t i = 0; i < bytes; ++i) crc = crc >> 8 ^ kCrc32cTable[(crc ^ at[i]) & 255];
  return ~crc;
}

}  // namespace parkade::store
