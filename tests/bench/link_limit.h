// The link's limit: what one large copy from and to pinned memory reaches.
#pragma once

#include <cstddef>

namespace parkade::bench {

// Prints device_to_host_gbps and host_to_device_gbps, each the best of three. A context is current.
void PrintLinkLimit(size_t bytes);

}  // namespace parkade::bench
