// Errand: has processes that are out read their backups, or move them to another place than HBM,
// and waits for what comes of it. It claims nobody: whatever else is asked of one of them goes
// first and ends it there.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/course.h"
#include "daemon/orders.h"
#include "daemon/registry.h"
#include "daemon/round.h"

namespace parkade::daemon {

class Errand {
 public:
  // Sends what is asked to the process of that number, its answer to be given to the same slot.
  using Ask = std::function<void(size_t number, const std::shared_ptr<Round>& round)>;

  // All outlive it. `stall_ms`: no byte was read or moved and no answer came for so long: they
  // hang.
  Errand(const ProcessList& processes, Course& course, uint64_t stall_ms, Ask ask)
      : processes_(processes), course_(course), stall_ms_(stall_ms), ask_(std::move(ask)) {}

  // What became of each process, also where this fails: bytes by tier, blocks that are wrong.
  const Outcomes& outcomes() const { return outcomes_; }
  // DATA_LOSS (BACKUP_CORRUPT, BACKUP_MISSING; metadata has wrong_blocks, of all of them), before
  // anything else that a process answered; CANCELLED; SHIM_STALLED.
  absl::Status Run();

  // Has whatever is read or moved of these processes' backups end, and waits until `by` for that.
  // Who is through by now, or does something else by now, is not disturbed by it.
  static void Stop(const ProcessList& processes, Deadline by);

 private:
  void Await(Round& round) const;
  uint64_t BytesDone() const;

  const ProcessList& processes_;
  Course& course_;
  const uint64_t stall_ms_;
  const Ask ask_;
  Outcomes outcomes_;
};

}  // namespace parkade::daemon
