// Keeps groups by owner and name.
#include "daemon/groups.h"

#include <algorithm>
#include <set>

#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
Groups::Groups(std::vector<Group> configured, Journal* journal) : journal_(journal) {
  const MutexLock lock(mu_);
  for (Group& group : configured) {
    const Key key{"", group.name};
    groups_[key] = std::move(group);
  }
  if (journal_ == nullptr) return;
  for (const Group& group : journal_->found().groups) {
    if (!groups_.contains({"", group.name})) groups_[{group.owner, group.name}] = group;
  }
}

void Groups::Configure(std::vector<Group> configured) {
  const MutexLock lock(mu_);
  std::set<std::string> names;
  for (const Group& group : configured) names.insert(group.name);
  std::erase_if(groups_, [&](const auto& each) {
    return each.first.first.empty() || names.contains(each.first.second);
  });
  for (Group& group : configured) {
    const Key key{"", group.name};
    groups_[key] = std::move(group);
  }
}

absl::Status Groups::Define(Group group) {
  if (auto s = Check(group); !s.ok()) return s;
  const MutexLock lock(mu_);
  const Metadata metadata{{"group", group.name}};
  if (groups_.contains({"", group.name})) {
    return Fail(absl::StatusCode::kAlreadyExists, "GROUP_CONFIGURED",
                Cat("the daemon's configuration defines the group ", group.name), metadata);
  }
  const Key key{group.owner, group.name};
  const size_t own = size_t(std::count_if(groups_.begin(), groups_.end(), [&](const auto& each) {
    return each.first.first == group.owner;
  }));
  if (own >= kMost && !groups_.contains(key)) {
    return Fail(absl::StatusCode::kResourceExhausted, "TOO_MANY_GROUPS",
                Cat(group.owner, " has defined ", own, " groups already"), metadata);
  }
  if (journal_ != nullptr) journal_->Define(group);
  groups_[key] = std::move(group);
  return absl::OkStatus();
}

absl::Status Groups::Remove(const Caller& caller, const std::string& name) {
  const MutexLock lock(mu_);
  if (groups_.erase({caller.Name(), name}) == 0) {
    return Fail(absl::StatusCode::kNotFound, "NO_GROUP",
                Cat("you have defined no group \"", name, "\""), {{"group", name}});
  }
  if (journal_ != nullptr) journal_->RemoveGroup(caller.Name(), name);
  return absl::OkStatus();
}

absl::StatusOr<Group> Groups::Find(const Caller& caller, const std::string& name) const {
  std::vector<std::string> known;
  for (const Group& group : List(caller)) {
    if (group.name == name) return group;
    known.push_back(group.name);
  }
  return Fail(
      absl::StatusCode::kNotFound, "NO_GROUP",
      Cat("there is no group \"", name, "\"; known: ", known.empty() ? "none" : Join(known, ", ")),
      {{"group", name}, {"known_groups", Join(known, ",")}});
}

std::vector<Group> Groups::List(const Caller& caller) const {
  const MutexLock lock(mu_);
  std::vector<Group> groups;
  for (const auto& [key, group] : groups_) {
    if (key.first.empty() || key.first == caller.Name()) groups.push_back(group);
  }
  std::sort(groups.begin(), groups.end(),
            [](const Group& a, const Group& b) { return a.name < b.name; });
  return groups;
}

}  // namespace parkade::daemon
