// The link's limit: what one large copy from and to pinned memory reaches, and what the same bytes
// reach in chunks.
#pragma once

#include <cstddef>

namespace parkade::bench {

// Prints device_to_host_gbps and host_to_device_gbps, each the best of three. A context is current.
void PrintLinkLimit(size_t bytes);

// The same copies cut into chunks of several sizes, with an event behind each, on one stream and on
// two by turns: chunks_<out or in>_<MiB>_<streams>, GB/s.
void PrintChunkedLink(size_t bytes);

}  // namespace parkade::bench
