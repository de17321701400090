// The disk's limit: direct writes and reads of one preallocated file through io_uring.
#pragma once

#include <cstddef>

namespace parkade::bench {

struct DiskLoop {
  const char* folder;
  size_t bytes;    // of the file, multiple of `block`
  size_t block;    // of each request
  unsigned depth;  // requests in flight
};

// For each line of input, `write` or `read`, goes once over the file and prints GB/s. The file is
// written in place again and again; it has no name, so that nothing is left whatever happens.
void ServeDisk(const DiskLoop& loop);

}  // namespace parkade::bench
