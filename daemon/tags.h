// Tags as callers write them.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace parkade::daemon {

// The tag that a name means: "weight" means "weights".
std::string TagName(std::string_view name);

// The tags in `texts`, each of which may hold several, apart by commas and blanks; in their order,
// each once.
std::vector<std::string> ReadTags(const std::vector<std::string>& texts);

// INVALID_ARGUMENT: UNKNOWN_TAG for one that cannot exist, BAD_POLICY for more than a message
// holds.
absl::Status CheckNames(const std::vector<std::string>& tags);
// UNKNOWN_TAG for one that is not `known`, with those that are, 32 at most, as known_tags.
absl::Status CheckKnown(const std::vector<std::string>& tags, const std::set<std::string>& known);

}  // namespace parkade::daemon
