// The host twins of the shim's kernels (shim/kernels/hash_blocks.cu).
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/hash/block_hash.h"
#include "shim/kernels/hash_blocks.h"

namespace parkade::sim {

inline bool Repeats(const char* bytes, size_t count, const void* pattern) {
  for (size_t at = 0; at < count; at += 16) {
    if (memcmp(bytes + at, pattern, 16) != 0) return false;
  }
  return true;
}

// `touch(address, bytes)` says whether the kernel may read there; if not, it has failed.
template <typename Touch>
void HashBlocks(const HashPart* all_parts, const HashBlockParts* blocks, HashedBlock* results,
                size_t count, Touch touch) {
  std::vector<char> gathered;  // a block that lies in several parts
  for (size_t i = 0; i < count; ++i) {
    const HashPart* parts = all_parts + blocks[i].first;
    gathered.clear();
    size_t bytes = 0;
    for (size_t p = 0; p < blocks[i].count; ++p) {
      const auto* from = reinterpret_cast<const char*>(parts[p].address);
      const size_t here = parts[p].leaves * kHashLeaf;
      if (parts[p].first_leaf * kHashLeaf != bytes || !touch(from, here)) return;
      if (blocks[i].count != 1) gathered.insert(gathered.end(), from, from + here);
      bytes += here;
    }
    const char* block =
        blocks[i].count != 1 ? gathered.data() : reinterpret_cast<const char*>(parts[0].address);
    const Digest digest = HashBlock(block, bytes);
    HashedBlock result{{digest.low, digest.high}, {}, 0, 0};
    memcpy(result.pattern, block, sizeof result.pattern);
    result.repeats = Repeats(block, bytes, result.pattern) ? 1 : 0;
    results[i] = result;
  }
}

template <typename Touch>
void CompareBlocks(const ComparePart* parts, uint32_t* differs, size_t count, Touch touch) {
  for (const ComparePart* part = parts; part != parts + count; ++part) {
    const auto* bytes = reinterpret_cast<const char*>(part->address);
    const auto* other = reinterpret_cast<const char*>(part->other);
    const size_t size = size_t(part->words) * 16;
    if (!touch(bytes, size) || (other != nullptr && !touch(other, size))) return;
    const bool equal =
        other != nullptr ? memcmp(bytes, other, size) == 0 : Repeats(bytes, size, part->pattern);
    if (!equal) differs[part->block] = 1;
  }
}

}  // namespace parkade::sim
