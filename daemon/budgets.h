// Budgets: what backups may take of host memory and disks, of the node and of each job, and what
// they take.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "daemon/budget_limits.h"
#include "daemon/journal.h"
#include "daemon/registry.h"

namespace parkade::daemon {

// What the processes under one budget take now, by their own count; on disks no more than their
// directories hold.
struct BudgetUse {
  std::map<int, Bytes> host, disk;  // by pid; pools, and files with backups that are out or kept
  std::map<int, Bytes> out;         // of the latter what is out: no pause writes over it
  Bytes HostBytes() const;
  Bytes DiskBytes() const;
};

class Budgets {
 public:
  // `host`: of the node, by the configuration. What callers have set before, in `journal`, is
  // stronger. All outlive it; a null journal: nothing is remembered.
  Budgets(std::optional<Bytes> host, const Registry& registry, Journal* journal = nullptr);

  // The configuration has been read again.
  void Configure(std::optional<Bytes> host) EXCLUDES(mu_);

  // What `change` leaves empty stays. RESOURCE_EXHAUSTED (TOO_MANY_BUDGETS): 256 jobs have one.
  absl::Status Set(const BudgetLimits& change) EXCLUDES(mu_);

  // Limits and use at one moment: of the node, whose job is empty, first, then of jobs that have
  // limits. A limit that is empty is none.
  struct Entry {
    BudgetLimits limits;
    BudgetUse use;
    bool IsOver() const;
  };
  std::vector<Entry> Look() const EXCLUDES(mu_);
  Entry Of(const std::string& job) const EXCLUDES(mu_);

 private:
  static constexpr size_t kMost = 256;

  const Registry& registry_;
  Journal* const journal_;
  mutable Mutex mu_;  // before Journal's; ledgers are read without it
  std::optional<Bytes> configured_ GUARDED_BY(mu_);
  std::map<std::string, BudgetLimits> limits_ GUARDED_BY(mu_);
};

// Whose budget it is, in a sentence: "the node", "the job rl".
std::string NameOf(const BudgetLimits& limits);
// "pid=bytes,...", the largest first; those of no bytes are left out.
std::string UsersOf(const std::map<int, Bytes>& use);

}  // namespace parkade::daemon
