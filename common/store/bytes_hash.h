// One digest for bytes of any length, by the block hash.
#pragma once

#include <span>
#include <string_view>

#include "common/hash/block_hash.h"

namespace parkade::store {

// Of the digests of the bytes' blocks of 2 MiB, the last one padded with zeros to 4096, and of the
// length, hashed in the same way until one is left. Any thread.
Digest HashBytes(std::string_view bytes);

}  // namespace parkade::store
