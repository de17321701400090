// Groups: those of the configuration and those that callers have defined, by name.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "daemon/group.h"
#include "daemon/journal.h"

namespace parkade::daemon {

class Groups {
 public:
  // Those of the configuration, for everybody; and what callers have defined before, in `journal`,
  // which outlives this. Null: nothing.
  explicit Groups(std::vector<Group> configured, Journal* journal = nullptr);

  // The configuration has been read again: these are in the place of all that it defined. What
  // callers have defined under one of these names is hidden from now on.
  void Configure(std::vector<Group> configured) EXCLUDES(mu_);

  // In the place of the owner's own of that name. As Check; ALREADY_EXISTS (GROUP_CONFIGURED): the
  // configuration has that name; RESOURCE_EXHAUSTED (TOO_MANY_GROUPS): the owner has 256.
  absl::Status Define(Group group) EXCLUDES(mu_);
  // NOT_FOUND (NO_GROUP).
  absl::Status Remove(const Caller& caller, const std::string& name) EXCLUDES(mu_);
  // The caller's own or one of the configuration. NOT_FOUND (NO_GROUP), which names those there
  // are.
  absl::StatusOr<Group> Find(const Caller& caller, const std::string& name) const EXCLUDES(mu_);
  // By name.
  std::vector<Group> List(const Caller& caller) const EXCLUDES(mu_);

 private:
  using Key = std::pair<std::string, std::string>;  // owner, name
  static constexpr size_t kMost = 256;

  Journal* const journal_;
  mutable Mutex mu_;  // before Journal's
  std::map<Key, Group> groups_ GUARDED_BY(mu_);
};

}  // namespace parkade::daemon
