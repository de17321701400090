// The tags that threads push through parkade.h.
#pragma once

#include <string_view>

namespace parkade::shim {

// What memory bears that this thread allocates now; `own` is the process's tag.
std::string_view CurrentTag(std::string_view own);

}  // namespace parkade::shim
