// Under which names the loader knows this library.
#pragma once

#include <string_view>

namespace parkade::shim {

// Whether the file name (after the last '/') that this library was loaded by has `part` in it, or
// LD_PRELOAD names the same file so. Reads the environment: application threads, inside a call of
// theirs.
bool IsLoadedAs(std::string_view part);

}  // namespace parkade::shim
