// HostBudget: how much host memory pauses may take, over all processes of the node.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "daemon/planner.h"
#include "daemon/registry.h"

namespace parkade::daemon {

class HostBudget {
 public:
  // `fixed`: bytes for all pools together, as far as the node has them; empty: what the node has
  // available, less a reserve.
  HostBudget(std::optional<Bytes> fixed, const Registry& registry)
      : fixed_(fixed), registry_(registry) {}

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

    // Plans with what is free, on the node and in each control group, and not booked by others, and
    // books what the plan takes; replaces what this booked before. On failure that stays.
    absl::StatusOr<std::vector<Grant>> Plan(const Policies& policies,
                                            std::span<const Demand> demands);

   private:
    HostBudget& budget_;
  };

 private:
  struct Share {
    Bytes node = 0;
    std::map<std::string, Bytes> groups;  // by path
  };

  Bytes Measure() const;
  // With what is left beside the bookings of others than `booking`. *left: the demands with that.
  absl::StatusOr<std::vector<Grant>> PlanBeside(const Booking* booking, const Policies& policies,
                                                Bytes measured, std::vector<Demand>* left)
      REQUIRES(mu_);
  void Release(const Booking* booking) EXCLUDES(mu_);

  const std::optional<Bytes> fixed_;
  const Registry& registry_;
  Mutex mu_;  // innermost; the planner, which is pure, runs under it
  std::map<const Booking*, Share> booked_ GUARDED_BY(mu_);
};

}  // namespace parkade::daemon
