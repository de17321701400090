// The disk's limit: direct writes and reads of one preallocated file through io_uring.
#pragma once

#include <cstddef>

namespace parkade::bench {

// Prints disk_write_gbps and disk_read_gbps. The file in `folder` is gone afterwards.
void PrintDiskLimit(const char* folder, size_t bytes);

}  // namespace parkade::bench
