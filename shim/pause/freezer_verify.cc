// The backups of a process that is out are read, and it stays as it is.
#include "shim/pause/freezer.h"
#include "shim/pause/verifier.h"

namespace parkade::shim {

using wire::ProcessState;

Freezer::Outcome Freezer::Verify(uint64_t op_id, const std::atomic<bool>& stop,
                                 std::vector<wire::WrongBlock>* wrong) {
  Outcome outcome;
  const bool out = state_ == ProcessState::kPaused || state_ == ProcessState::kPartlyMoved;
  if (!out || arrival_) {
    outcome.result = MakeError(Code::kFailedPrecondition, "NOT_PAUSED",
                               "there is no backup to read: the process is not paused");
    return outcome;
  }
  const std::vector<Range*> ranges = heap_.BeginReading();
  ledger_.BeginTransition(op_id, BytesOut(ranges));
  const uint64_t start_ns = MonotonicNs();
  VerifyReport report;
  outcome.result = mover_.Verify(ranges, files_, stage_bytes_, stop, &report);
  heap_.EndReading(ranges);
  ledger_.EndTransition();
  ledger_.SetHostPool(pool_.held());
  outcome.stats.host_bytes = report.read.host;
  outcome.stats.disk_bytes = report.read.disk;
  outcome.stats.elided_bytes = report.read.elided;
  outcome.stats.wrong_blocks = report.wrong;
  outcome.stats.move_ns = MonotonicNs() - start_ns;
  outcome.stats.host_pool_bytes = pool_.held();
  *wrong = std::move(report.blocks);
  return outcome;
}

}  // namespace parkade::shim
