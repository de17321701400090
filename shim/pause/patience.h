// Patience: whether a look for what has ended waits until something has.
#pragma once

#include <cstdint>

namespace parkade::shim {

enum class Patience : uint8_t { kLook, kWait };

}  // namespace parkade::shim
