// Hashes byte strings block by block.
#include "common/store/bytes_hash.h"

#include <cstring>
#include <string>

namespace parkade::store {
namespace {

Digest HashPadded(std::string_view block) {
  if (block.size() % kHashLeaf == 0 && !block.empty()) return HashBlock(block.data(), block.size());
  std::string padded(block);
  padded.resize(RoundUp(block.size() + 1, kHashLeaf));
  return HashBlock(padded.data(), padded.size());
}

}  // namespace

Digest HashBytes(std::string_view bytes) {
  std::string digests;
  uint64_t length = bytes.size();
  for (std::string level(bytes);;) {
    digests.clear();
    for (size_t at = 0; at < level.size(); at += kHashBlock) {
      const Digest digest = HashPadded(std::string_view(level).substr(at, kHashBlock));
      digests.append(reinterpret_cast<const char*>(&digest), sizeof digest);
    }
    digests.append(reinterpret_cast<const char*>(&length), sizeof length);
    if (digests.size() <= sizeof(Digest) + sizeof length) return HashPadded(digests);
    level.swap(digests);
  }
}

}  // namespace parkade::store
