// Limits by job, and sums over ledgers.
#include "daemon/budgets.h"

#include <algorithm>

#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

Bytes Sum(const std::map<int, Bytes>& by_pid) {
  Bytes sum = 0;
  for (const auto& [pid, bytes] : by_pid) sum += bytes;
  return sum;
}

// The most that a process can have on disk: what its directory holds. Where an earlier daemon made
// it that is not known before it is used again, and its own word counts.
Bytes MostOnDisk(const Process& process) {
  const auto scratch = process.scratch();
  if (scratch == nullptr) return 0;
  return scratch->data() < 0 ? kMostClaimed : scratch->AllBytes();
}

void Add(const Process& process, const ProcessView& view, BudgetUse& use) {
  const wire::LedgerHeader& h = *view.ledger;
  const int pid = view.identity.pid;
  use.host[pid] = std::min(std::max<Bytes>(h.host_pool_bytes, h.host_backup_bytes), kMostClaimed);
  const Bytes most = MostOnDisk(process);
  use.out[pid] = std::min<Bytes>(h.disk_backup_bytes, most);
  use.disk[pid] = use.out[pid] + std::min<Bytes>(h.disk_retained_bytes, most - use.out[pid]);
}

// 0 is no limit.
std::optional<Bytes> Limit(std::optional<Bytes> set) {
  return set == Bytes(0) ? std::nullopt : set;
}

}  // namespace

Bytes BudgetUse::HostBytes() const { return Sum(host); }

Bytes BudgetUse::DiskBytes() const { return Sum(disk); }

bool Budgets::Entry::IsOver() const {
  return (limits.host && use.HostBytes() > *limits.host) ||
         (limits.disk && use.DiskBytes() > *limits.disk);
}

Budgets::Budgets(std::optional<Bytes> host, const Registry& registry, Journal* journal)
    : registry_(registry), journal_(journal) {
  const MutexLock lock(mu_);
  configured_ = host;
  if (journal_ == nullptr) return;
  for (const BudgetLimits& limits : journal_->found().budgets) limits_[limits.job] = limits;
}

void Budgets::Configure(std::optional<Bytes> host) {
  const MutexLock lock(mu_);
  configured_ = host;
}

absl::Status Budgets::Set(const BudgetLimits& change) {
  const MutexLock lock(mu_);
  const size_t jobs = limits_.size() - limits_.count("");
  if (jobs >= kMost && !change.job.empty() && !limits_.contains(change.job)) {
    return Fail(absl::StatusCode::kResourceExhausted, "TOO_MANY_BUDGETS",
                Cat(jobs, " jobs have a budget already"), {{"job", change.job}});
  }
  BudgetLimits& limits = limits_[change.job];
  limits.job = change.job;
  if (change.host) limits.host = change.host;
  if (change.disk) limits.disk = change.disk;
  if (journal_ != nullptr) journal_->SetBudget(limits);
  if (limits.limits_nothing() && !change.job.empty()) limits_.erase(change.job);
  return absl::OkStatus();
}

std::vector<Budgets::Entry> Budgets::Look() const {
  std::vector<Entry> entries(1);
  {
    const MutexLock lock(mu_);
    entries[0].limits.host = configured_;
    for (const auto& [job, limits] : limits_) {
      if (!job.empty()) {
        entries.push_back({{job, Limit(limits.host), Limit(limits.disk)}, {}});
        continue;
      }
      if (limits.host) entries[0].limits.host = Limit(limits.host);
      entries[0].limits.disk = Limit(limits.disk);
    }
  }
  for (const auto& process : registry_.All()) {
    const ProcessView view = process->View();
    if (!view.ledger) continue;
    for (Entry& entry : entries) {
      const std::string& job = entry.limits.job;
      if (job.empty() || job == view.introduction.job) Add(*process, view, entry.use);
    }
  }
  return entries;
}

Budgets::Entry Budgets::Of(const std::string& job) const {
  for (const Entry& entry : Look()) {
    if (entry.limits.job == job) return entry;
  }
  Entry none;
  none.limits.job = job;
  for (const auto& process : registry_.All()) {
    const ProcessView view = process->View();
    if (view.ledger && view.introduction.job == job) Add(*process, view, none.use);
  }
  return none;
}

std::string NameOf(const BudgetLimits& limits) {
  return limits.job.empty() ? "the node" : Cat("the job ", limits.job);
}

std::string UsersOf(const std::map<int, Bytes>& use) {
  std::vector<std::pair<Bytes, int>> users;
  for (const auto& [pid, bytes] : use) {
    if (bytes != 0) users.emplace_back(bytes, pid);
  }
  std::sort(users.rbegin(), users.rend());
  std::vector<std::string> words;
  for (const auto& [bytes, pid] : users) words.push_back(Cat(pid, "=", bytes));
  return Join(words, ",");
}

}  // namespace parkade::daemon
