// The host twin of the shim's kernel parkade_hash_blocks (shim/kernels/hash_blocks.cu).
#pragma once

#include <algorithm>
#include <vector>

#include "common/hash/block_hash.h"
#include "shim/kernels/hash_blocks.h"

namespace parkade::sim {

// `touch(address, bytes)` says whether the kernel may read there; if not, it has failed.
template <typename Touch>
void HashBlocks(const HashPart* parts, uint32_t count, Bytes bytes, Digest* digests, Touch touch) {
  std::vector<char> gathered;  // a block that lies in several parts
  uint32_t part = 0;
  Bytes done = 0;  // of that part
  for (Bytes at = 0; at < bytes; at += kHashBlock) {
    const Bytes wanted = std::min(kHashBlock, bytes - at);
    const char* block = nullptr;
    gathered.clear();
    while (block == nullptr) {
      if (part == count) return;
      const Bytes left = parts[part].leaves * kHashLeaf - done;
      const Bytes here = std::min(left, wanted - gathered.size());
      const auto* from = reinterpret_cast<const char*>(parts[part].address) + done;
      if (!touch(from, here)) return;
      done = here == left ? 0 : done + here;
      part += here == left;
      if (here == wanted) block = from;
      if (block == nullptr) gathered.insert(gathered.end(), from, from + here);
      if (gathered.size() == wanted) block = gathered.data();
    }
    *digests++ = HashBlock(block, wanted);
  }
}

}  // namespace parkade::sim
