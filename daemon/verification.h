// Verification: has processes read their backups, and waits for what they find. It claims nobody:
// whatever else is asked of one of them goes first and ends its reading.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/course.h"
#include "daemon/orders.h"
#include "daemon/registry.h"
#include "daemon/round.h"

namespace parkade::daemon {

class Verification {
 public:
  // Both outlive it. `stall_ms`: no byte was read and no answer came for so long: they hang.
  Verification(const ProcessList& processes, Course& course, uint64_t stall_ms)
      : processes_(processes), course_(course), stall_ms_(stall_ms) {}

  // What became of each process, also where this fails: bytes read by tier, blocks that are wrong.
  const Outcomes& outcomes() const { return outcomes_; }
  // DATA_LOSS (BACKUP_CORRUPT, BACKUP_MISSING; metadata has wrong_blocks, of all of them), before
  // anything else that a process answered; CANCELLED; SHIM_STALLED.
  absl::Status Run();

 private:
  void Await(Round& round) const;
  uint64_t BytesRead() const;
  void Stop() const;

  const ProcessList& processes_;
  Course& course_;
  const uint64_t stall_ms_;
  Outcomes outcomes_;
};

}  // namespace parkade::daemon
