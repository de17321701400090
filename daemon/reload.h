// Reload: the configuration is read again while the daemon runs.
#pragma once

#include <string>

#include "daemon/budgets.h"
#include "daemon/config.h"
#include "daemon/groups.h"

namespace parkade::daemon {

// The log level, host.budget and the groups of `fresh` hold from now on; everything else that
// differs is named in the log as waiting for a restart. Returns a sentence about it, and leaves in
// `current` what is in force.
std::string Reload(const Config& fresh, Config& current, Budgets& budgets, Groups& groups);

}  // namespace parkade::daemon
