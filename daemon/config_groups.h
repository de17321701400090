// The tables [groups.NAME] of the configuration.
#pragma once

#include <string>
#include <vector>

#include "daemon/groups.h"
#include "daemon/settings.h"
#include "daemon/toml.h"

namespace parkade::daemon {

// An unknown key, a value that cannot be, and what Check refuses are mistakes, with group and line.
std::vector<Group> ReadGroups(const toml::table& groups, const std::string& file,
                              Mistakes& mistakes);

}  // namespace parkade::daemon
