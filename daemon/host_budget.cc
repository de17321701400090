// Measures and books.
#include "daemon/host_budget.h"

#include <algorithm>

#include "daemon/host_memory.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

Bytes At(const std::map<int, Bytes>& by_pid, int pid) {
  const auto at = by_pid.find(pid);
  return at == by_pid.end() ? 0 : at->second;
}

// A job's budget limits its processes as a control group does. No group's path begins so.
std::string JobGroup(const std::string& job) { return "job " + job; }

bool IsUnder(const Budgets::Entry& entry, const Demand& demand) {
  return entry.limits.job.empty() || entry.use.host.contains(demand.pid);
}

// Of `limit`, `used` is taken by these and the pauses under way, and `needed` does not fit.
absl::Status OverBudget(const Budgets::Entry& entry, std::string_view reason, Bytes limit,
                        Bytes used, const std::map<int, Bytes>& users, Bytes needed) {
  const std::string& job = entry.limits.job;
  const bool of_disk = reason == "DISK_SPACE";
  const std::string who = UsersOf(users);
  return Fail(absl::StatusCode::kResourceExhausted, reason,
              Cat("the pause needs ", InUnits(needed), of_disk ? " on disk" : " of host memory",
                  ", and the budget of ", NameOf(entry.limits), " is ", InUnits(limit),
                  ", of which ", InUnits(used), " are in use", who.empty() ? "" : " by ", who,
                  of_disk ? "" : "; policy disk or auto would do"),
              {{"budget", job.empty() ? "node" : "job"},
               {"job", job},
               {"budget_bytes", std::to_string(limit)},
               {"used_bytes", std::to_string(used)},
               {"users", who},
               {"needed_bytes", std::to_string(needed)},
               {"free_bytes", std::to_string(Less(limit, used))}});
}

// A plan that failed for want of host memory, with the budget that it failed for, if it was one.
absl::Status NameBudget(const absl::Status& failed, const std::vector<Budgets::Entry>& entries) {
  if (ReasonOf(failed) != "HOST_MEMORY") return failed;
  const Metadata known = MetadataOf(failed);
  const auto group = known.find("cgroup");
  for (const Budgets::Entry& entry : entries) {
    const std::string& job = entry.limits.job;
    const bool is_it = group == known.end() ? job.empty() : group->second == JobGroup(job);
    if (!is_it || !entry.limits.host) continue;
    const auto needed = ReadNumber<Bytes>(known.at("needed_bytes")).value_or(0);
    const auto free = ReadNumber<Bytes>(known.at("free_bytes")).value_or(0);
    // Where the node itself has less, that is what is said.
    const Bytes limit = *entry.limits.host;
    if (job.empty() && free < Less(limit, entry.use.HostBytes())) return failed;
    return OverBudget(entry, "HOST_MEMORY", limit, Less(limit, free), entry.use.host, needed);
  }
  return failed;
}

// DISK_SPACE where the grants and what is in files make more than a budget. `booked`: what others
// will have there when their pauses have ended. Of the demands' own processes what is kept is
// written over, what is out is not.
absl::Status CheckDisk(const Budgets::Entry& entry, std::span<const Demand> demands,
                       std::span<const Grant> grants, const std::map<int, Bytes>& booked) {
  if (!entry.limits.disk) return absl::OkStatus();
  std::map<int, Bytes> held = entry.use.disk;
  for (auto& [pid, bytes] : held) bytes = std::max(bytes, At(booked, pid));
  Bytes wanted = 0;
  for (size_t i = 0; i < demands.size(); ++i) {
    if (!IsUnder(entry, demands[i]) || grants[i].disk == 0) continue;
    held[demands[i].pid] = At(entry.use.out, demands[i].pid);
    wanted += grants[i].disk;
  }
  Bytes used = 0;
  for (const auto& [pid, bytes] : held) used += bytes;
  const Bytes limit = *entry.limits.disk;
  if (wanted == 0 || wanted <= Less(limit, used)) return absl::OkStatus();
  return OverBudget(entry, "DISK_SPACE", limit, used, held, wanted);
}

}  // namespace

Bytes HostBudget::Measure(const Budgets::Entry& node) {
  const HostMemory memory = ReadHostMemory();
  // 5 % of the node for everybody else: page tables, network buffers, what starts meanwhile.
  const Bytes available = Less(memory.available, memory.total / 20);
  if (!node.limits.host) return available;
  Bytes held = 0;
  // Each one's own claim: more than the node has is no figure.
  for (const auto& [pid, bytes] : node.use.host) held += std::min(bytes, memory.total);
  // A budget is a promise of the administrator's; what others have taken since is gone all the
  // same.
  return std::min(Less(*node.limits.host, held), available);
}

absl::StatusOr<std::vector<Grant>> HostBudget::Booking::Plan(const Policies& policies,
                                                             std::span<const Demand> demands) {
  const Entries entries = budget_.budgets_.Look();
  const Bytes measured = Measure(entries[0]);
  std::vector<Demand> left(demands.begin(), demands.end());
  const MutexLock lock(budget_.mu_);
  auto grants = budget_.PlanBeside(this, policies, entries, measured, &left);
  if (!grants.ok()) return grants;
  Share& mine = budget_.booked_[this];
  mine = {};
  for (size_t i = 0; i < grants->size(); ++i) {
    const Grant& grant = (*grants)[i];
    mine.node += grant.new_host;
    for (const MemoryGroup& group : left[i].groups) {
      mine.groups[group.path] += grant.new_host + grant.stage;
    }
    const int pid = left[i].pid;
    if (grant.disk != 0) mine.disk[pid] = At(entries[0].use.out, pid) + grant.disk;
  }
  return grants;
}

absl::StatusOr<std::vector<Grant>> HostBudget::PlanBeside(const Booking* booking,
                                                          const Policies& policies,
                                                          const Entries& entries, Bytes measured,
                                                          std::vector<Demand>* left) {
  Share others;
  for (const auto& [other, share] : booked_) {
    if (other == booking) continue;
    others.node += share.node;
    for (const auto& [path, bytes] : share.groups) others.groups[path] += bytes;
    for (const auto& [pid, bytes] : share.disk) others.disk[pid] = bytes;
  }
  for (Demand& demand : *left) {
    for (MemoryGroup& group : demand.groups) {
      group.free = Less(group.free, others.groups[group.path]);
      // For page tables, buffers of the kernel and what the process does meanwhile: all of it
      // counts.
      group.free -= group.free / 16;
    }
    for (const Budgets::Entry& entry : entries) {
      if (entry.limits.job.empty() || !entry.limits.host || !IsUnder(entry, demand)) continue;
      const std::string path = JobGroup(entry.limits.job);
      const Bytes taken = entry.use.HostBytes() + others.groups[path];
      demand.groups.push_back({path, Less(*entry.limits.host, taken)});
    }
  }
  const Bytes free = Less(measured, others.node);
  auto grants = daemon::Plan(policies, *left, free);
  if (!grants.ok()) return NameBudget(grants.status(), entries);
  Bytes taken = 0;
  for (const Grant& grant : *grants) taken += grant.new_host;
  // What goes to disk although the node has room does so for a group's or a job's limit.
  for (Grant& grant : *grants) grant.spills = grant.spills && Less(free, taken) < 2_MiB;
  for (const Budgets::Entry& entry : entries) {
    if (auto s = CheckDisk(entry, *left, *grants, others.disk); !s.ok()) return s;
  }
  return grants;
}

absl::StatusOr<std::vector<Grant>> HostBudget::Foretell(const Policies& policies,
                                                        std::span<const Demand> demands) {
  const Entries entries = budgets_.Look();
  const Bytes measured = Measure(entries[0]);
  std::vector<Demand> left(demands.begin(), demands.end());
  const MutexLock lock(mu_);
  return PlanBeside(nullptr, policies, entries, measured, &left);
}

void HostBudget::Release(const Booking* booking) {
  const MutexLock lock(mu_);
  booked_.erase(booking);
}

}  // namespace parkade::daemon
