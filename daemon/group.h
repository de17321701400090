// Group: processes and what a pause does with their tags, under a name.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/planner.h"
#include "daemon/selector.h"

namespace parkade::daemon {

struct Group {
  std::string name;
  Selector selector;
  Policies policies;       // of a pause that says nothing else
  std::string owner = {};  // Caller::Name of who has defined it; empty: the configuration
};

// BAD_GROUP for a name that is none (1 to 63 letters, digits, '.', '_' and '-'), BAD_SELECTOR for
// an empty selector or one that names a group, BAD_POLICY and UNKNOWN_TAG as a pause.
absl::Status Check(const Group& group);

}  // namespace parkade::daemon
