// The tree hash as one function, compiled once for each instruction set. Everything in it is
// static, so that no processor is ever given another one's code by the linker.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/hash/hash_variant.h"

namespace parkade {

static inline void HashTree(const char* memory, size_t bytes, uint64_t digest[2]) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digests of leaves are little-endian");
  uint64_t leaves[kMostLeaves * 2] = {};
  const size_t count = bytes / kLeafBytes;
  for (size_t i = 0; i < count; ++i) {
    const XXH128_hash_t leaf = XXH3_128bits(memory + i * kLeafBytes, kLeafBytes);
    leaves[2 * i] = leaf.low64;
    leaves[2 * i + 1] = leaf.high64;
  }
  const XXH128_hash_t whole = XXH3_128bits_withSeed(leaves, sizeof leaves, bytes);
  digest[0] = whole.low64;
  digest[1] = whole.high64;
}

}  // namespace parkade
