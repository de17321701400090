// What makes a group one.
#include "daemon/group.h"

#include <algorithm>

#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

bool IsName(const std::string& name) {
  return !name.empty() && name.size() < 64 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

}  // namespace

absl::Status Check(const Group& group) {
  if (!IsName(group.name)) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_GROUP",
                Cat("\"", group.name,
                    "\" is no name of a group: 1 to 63 letters, digits, '.', '_' and '-'"));
  }
  if (group.selector.empty()) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_SELECTOR",
                Cat("the group ", group.name,
                    " selects nothing: name pids, a job, a role, ranks, "
                    "GPUs, or all"));
  }
  return CheckPolicies(group.policies);
}

}  // namespace parkade::daemon
