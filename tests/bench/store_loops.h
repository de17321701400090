// What a store is measured beside: the disk alone, and a loop that does one thing after the other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace parkade::bench {

// Direct requests of 4 MiB, 16 deep, over a preallocated file without a name. For each line
//   mixed BYTES          each block is read and written back, the others' reads beside it
//   phased BYTES PHASE   so many bytes are read, then those are written, and so on
// GB/s of both directions together. `most` bounds BYTES and PHASE.
void ServeDiskTurns(const char* folder, size_t most);

// Optimizer state in fp32, 12 bytes an element, in one file that is read and written through the
// page cache, a chunk at a time: read, copy in, Adam, copy out, write, each when the one before is
// done. For each line of input a step; it begins with nothing in the cache:
//   seconds=S until the last write has returned
//   synced=S until the disk has all
// A context is current.
void ServePeer(const char* folder, uint64_t elements, size_t chunk);

}  // namespace parkade::bench
