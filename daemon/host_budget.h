// HostBudget: how much host memory and disk pauses may take, over all processes of the node.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "daemon/budgets.h"
#include "daemon/planner.h"

namespace parkade::daemon {

class HostBudget {
 public:
  // Host memory is what `budgets` says, as far as the node has it; without a limit what the node
  // has available, less a reserve. Disks have the space that they have, and the limit that it says.
  explicit HostBudget(const Budgets& budgets) : budgets_(budgets) {}  // which outlives it

  // What Booking::Plan would answer now; books nothing.
  absl::StatusOr<std::vector<Grant>> Foretell(const Policies& policies,
                                              std::span<const Demand> demands) EXCLUDES(mu_);

  // One transition's share, given back when it ends: by then what it took shows in the measured
  // figures.
  class Booking {
   public:
    explicit Booking(HostBudget& budget) : budget_(budget) {}
    ~Booking() { budget_.Release(this); }
    Booking(const Booking&) = delete;
    Booking& operator=(const Booking&) = delete;

    // Plans with what is free, on the node, in each control group and under each budget, and not
    // booked by others, and books what the plan takes; replaces what this booked before. On failure
    // that stays. Errors as daemon::Plan, and DISK_SPACE; one of a budget says so: budget, "node"
    // or "job", job, budget_bytes, used_bytes and users in the metadata.
    absl::StatusOr<std::vector<Grant>> Plan(const Policies& policies,
                                            std::span<const Demand> demands);

   private:
    HostBudget& budget_;
  };

 private:
  struct Share {
    Bytes node = 0;
    std::map<std::string, Bytes> groups;  // by path; those of jobs by JobGroup
    std::map<int, Bytes> disk;            // by pid: what it will have in files
  };
  using Entries = std::vector<Budgets::Entry>;

  static Bytes Measure(const Budgets::Entry& node);
  // With what is left beside the bookings of others than `booking`. *left: the demands with that.
  absl::StatusOr<std::vector<Grant>> PlanBeside(const Booking* booking, const Policies& policies,
                                                const Entries& entries, Bytes measured,
                                                std::vector<Demand>* left) REQUIRES(mu_);
  void Release(const Booking* booking) EXCLUDES(mu_);

  const Budgets& budgets_;
  Mutex mu_;  // innermost; the planner, which is pure, runs under it
  std::map<const Booking*, Share> booked_ GUARDED_BY(mu_);
};

}  // namespace parkade::daemon
