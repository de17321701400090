// The block hash: one 128-bit tree hash over at most 2 MiB, which tells whether bytes that come
// back are those that left.
//
// A block is cut into leaves of 4 KiB. A leaf's digest is XXH3-128 of its bytes, without a seed.
// The block's digest is XXH3-128 of 512 digests of leaves, each as little-endian low64, high64, in
// order and zero where a short block has no leaf, with the block's length in bytes as the seed: so
// it differs from the same bytes padded with zeros. Leaves are independent of each other and all
// inputs have one of two fixed lengths, so that a GPU hashes a leaf with every four threads, on one
// code path (shim/kernels).
//
// XXH3-128 is that of xxHash 0.8 (Y. Collet; xxhash.h of libxxhash-dev, its doc/xxhash_spec.md; the
// algorithm is frozen). It is no cryptographic hash: it answers to chance, not to somebody who
// chooses the bytes. A block that chance has changed keeps its digest with a probability of about
// 2^-127, 2^-128 for each level of the tree: of 500,000 blocks a second that were all wrong, one in
// 10^25 years would pass.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/bytes.h"

namespace parkade {

constexpr Bytes kHashBlock = 2_MiB;
constexpr Bytes kHashLeaf = 4096;

struct Digest {
  uint64_t low;
  uint64_t high;
  friend bool operator==(const Digest&, const Digest&) = default;
};

// Of `bytes` bytes, 4096 to kHashBlock, a multiple of 4096; `memory` needs no alignment. Any
// thread.
Digest HashBlock(const void* memory, Bytes bytes);

// How many blocks `bytes` bytes make, the last one as short as it comes.
constexpr size_t HashBlocksIn(Bytes bytes) { return size_t((bytes + kHashBlock - 1) / kHashBlock); }

// The instructions in use: "avx2", "sse2", "neon" or "scalar".
const char* HashInstructions();

}  // namespace parkade
