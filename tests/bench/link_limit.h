// The link's limit: what one large copy from and to pinned memory reaches, and what the same bytes
// reach in chunks.
#pragma once

#include <cstddef>

namespace parkade::bench {

// For each line of input, `out`, `in` or `both`, copies `bytes` that way and prints GB/s, of both
// ways together where it was both. A context is current.
void ServeLink(size_t bytes);

// Such copies cut into chunks of several sizes, with an event behind each, on one stream and on
// two by turns, each the best of three: chunks_<out or in>_<MiB>_<streams>, GB/s.
void PrintChunkedLink(size_t bytes);

}  // namespace parkade::bench
