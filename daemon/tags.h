// Tags as callers write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace parkade::daemon {

// The tag that a name means: "weight" means "weights".
std::string TagName(std::string_view name);

// The tags in `texts`, each of which may hold several, apart by commas and blanks; in their order,
// each once.
std::vector<std::string> ReadTags(const std::vector<std::string>& texts);

}  // namespace parkade::daemon
