// What the host and the kernel `parkade_hash_blocks` agree on. Plain C types alone.
#pragma once

#include <stdint.h>

namespace parkade {

// Bytes to be hashed that lie together: leaves of 4 KiB, from `address` on.
struct HashPart {
  uint64_t address;
  uint32_t first_leaf;  // of all the parts before it
  uint32_t leaves;
};

// Threads of one block of the grid; it hashes one block of 2 MiB.
#define PARKADE_HASH_THREADS 256

}  // namespace parkade
