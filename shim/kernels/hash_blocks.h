// What the host and the kernels of hash_blocks.cu agree on. Plain C types alone.
#pragma once

#include <stdint.h>

namespace parkade {

// Bytes of one block that lie together: leaves of 4 KiB, from `address` on.
struct HashPart {
  uint64_t address;
  uint32_t first_leaf;  // of the block's parts before it
  uint32_t leaves;
};

// Which parts make one block of at most 2 MiB, one after the other.
struct HashBlockParts {
  uint32_t first;
  uint32_t count;  // 1 to PARKADE_HASH_PARTS
};

// What is known of a block afterwards.
struct HashedBlock {
  uint64_t digest[2];   // low, high
  uint64_t pattern[2];  // its first 16 bytes
  uint32_t repeats;     // 1: it is nothing but these, again and again
  uint32_t zero;
};

// Bytes that lie together, to be compared with other bytes or with a pattern.
struct ComparePart {
  uint64_t address;
  uint64_t other;  // 0: `pattern` again and again
  uint64_t pattern[2];
  uint32_t words;  // of 16 bytes
  uint32_t block;  // whose answer they count for
};

// Threads of one block of the grid; it hashes one block of 2 MiB, or compares one part.
#define PARKADE_HASH_THREADS 256
// 2 MiB in pieces of 4 KiB, no two of them side by side.
#define PARKADE_HASH_PARTS 256

}  // namespace parkade
