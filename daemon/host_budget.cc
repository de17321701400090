// Measures and books.
#include "daemon/host_budget.h"

#include <algorithm>

#include "daemon/host_memory.h"

namespace parkade::daemon {

Bytes HostBudget::Measure() const {
  const HostMemory memory = ReadHostMemory();
  // 5 % of the node for everybody else: page tables, network buffers, what starts meanwhile.
  const Bytes reserve = memory.total / 20;
  const Bytes available = memory.available > reserve ? memory.available - reserve : 0;
  if (!fixed_) return available;
  Bytes held = 0;
  for (const auto& process : registry_.All()) {
    const ProcessView view = process->View();
    if (!view.ledger) continue;
    // Its own claim: more than the node has is no figure.
    const Bytes claim = std::max(view.ledger->host_pool_bytes, view.ledger->host_backup_bytes);
    held += std::min(claim, memory.total);
  }
  // A budget is a promise of the administrator's; what others have taken since is gone all the
  // same.
  return std::min(*fixed_ > held ? *fixed_ - held : 0, available);
}

absl::StatusOr<std::vector<Grant>> HostBudget::Booking::Plan(const Policies& policies,
                                                             std::span<const Demand> demands) {
  const Bytes measured = budget_.Measure();
  std::vector<Demand> left(demands.begin(), demands.end());
  const MutexLock lock(budget_.mu_);
  auto grants = budget_.PlanBeside(this, policies, measured, &left);
  if (!grants.ok()) return grants;
  Share& mine = budget_.booked_[this];
  mine = {};
  for (size_t i = 0; i < grants->size(); ++i) {
    const Bytes bytes = (*grants)[i].new_host;
    mine.node += bytes;
    for (const MemoryGroup& group : left[i].groups) {
      mine.groups[group.path] += bytes + (*grants)[i].stage;
    }
  }
  return grants;
}

absl::StatusOr<std::vector<Grant>> HostBudget::PlanBeside(const Booking* booking,
                                                          const Policies& policies, Bytes measured,
                                                          std::vector<Demand>* left) {
  Share others;
  for (const auto& [other, share] : booked_) {
    if (other == booking) continue;
    others.node += share.node;
    for (const auto& [path, bytes] : share.groups) others.groups[path] += bytes;
  }
  for (Demand& demand : *left) {
    for (MemoryGroup& group : demand.groups) {
      group.free -= std::min(group.free, others.groups[group.path]);
      // For page tables, buffers of the kernel and what the process does meanwhile: all of it
      // counts.
      group.free -= group.free / 16;
    }
  }
  return daemon::Plan(policies, *left, measured > others.node ? measured - others.node : 0);
}

absl::StatusOr<std::vector<Grant>> HostBudget::Foretell(const Policies& policies,
                                                        std::span<const Demand> demands) {
  const Bytes measured = Measure();
  std::vector<Demand> left(demands.begin(), demands.end());
  const MutexLock lock(mu_);
  return PlanBeside(nullptr, policies, measured, &left);
}

void HostBudget::Release(const Booking* booking) {
  const MutexLock lock(mu_);
  booked_.erase(booking);
}

}  // namespace parkade::daemon
