// Measures and books.
#include "daemon/host_budget.h"

#include <algorithm>

#include "daemon/host_memory.h"

namespace parkade::daemon {

Bytes HostBudget::Measure() const {
  const HostMemory memory = ReadHostMemory();
  if (!fixed_) {
    // 5 % of the node for everybody else: page tables, network buffers, what starts meanwhile.
    const Bytes reserve = memory.total / 20;
    return memory.available > reserve ? memory.available - reserve : 0;
  }
  Bytes held = 0;
  for (const auto& process : registry_.All()) {
    const ProcessView view = process->View();
    if (!view.ledger) continue;
    // Its own claim: more than the node has is no figure.
    const Bytes claim = std::max(view.ledger->host_pool_bytes, view.ledger->host_backup_bytes);
    held += std::min(claim, memory.total);
  }
  return *fixed_ > held ? *fixed_ - held : 0;
}

absl::StatusOr<std::vector<Grant>> HostBudget::Booking::Plan(const Policies& policies,
                                                             std::span<const Demand> demands) {
  const Bytes measured = budget_.Measure();
  const MutexLock lock(budget_.mu_);
  Bytes others = 0;
  for (const auto& [booking, bytes] : budget_.booked_) {
    if (booking != this) others += bytes;
  }
  auto grants = daemon::Plan(policies, demands, measured > others ? measured - others : 0);
  if (!grants.ok()) return grants;
  Bytes& mine = budget_.booked_[this];
  mine = 0;
  for (const Grant& grant : *grants) mine += grant.new_host;
  return grants;
}

void HostBudget::Release(const Booking* booking) {
  const MutexLock lock(mu_);
  booked_.erase(booking);
}

}  // namespace parkade::daemon
