// The tables [groups.NAME] of the configuration.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/groups.h"
#include "daemon/toml.h"

namespace parkade::daemon {

// INVALID_ARGUMENT (BAD_CONFIG) for an unknown key, a value that cannot be, and what Check refuses;
// the message names `file` and the group.
absl::StatusOr<std::vector<Group>> ReadGroups(const toml::table& groups, const std::string& file);

}  // namespace parkade::daemon
