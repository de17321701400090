// The backups of a process that is out are read, or moved; it stays as it is.
#include <algorithm>
#include <utility>

#include "shim/pause/freezer.h"
#include "shim/pause/shifter.h"
#include "shim/pause/verifier.h"

namespace parkade::shim {

using wire::ProcessState;

bool Freezer::HasBackups(Outcome* outcome) const {
  const bool out = state_ == ProcessState::kPaused || state_ == ProcessState::kPartlyMoved;
  if (out && !arrival_) return true;
  outcome->result = MakeError(Code::kFailedPrecondition, "NOT_PAUSED",
                              "there is no backup: the process is not paused");
  return false;
}

void Freezer::EndReading(const std::vector<Range*>& ranges, uint64_t start_ns,
                         const MovedBytes& bytes, WrongBlocks& found, Outcome* outcome,
                         std::vector<wire::WrongBlock>* wrong) {
  heap_.EndReading(ranges);
  ledger_.EndTransition();
  ledger_.SetHostPool(pool_.held());
  outcome->stats.host_bytes = bytes.host;
  outcome->stats.disk_bytes = bytes.disk;
  outcome->stats.elided_bytes = bytes.elided;
  outcome->stats.wrong_blocks = found.count;
  outcome->stats.move_ns = MonotonicNs() - start_ns;
  outcome->stats.host_pool_bytes = pool_.held();
  *wrong = std::move(found.blocks);
}

Freezer::Outcome Freezer::Verify(uint64_t op_id, const std::atomic<bool>& stop,
                                 std::vector<wire::WrongBlock>* wrong) {
  Outcome outcome;
  if (!HasBackups(&outcome)) return outcome;
  const std::vector<Range*> ranges = heap_.BeginReading({});
  ledger_.BeginTransition(op_id, BytesOut(ranges));
  const uint64_t start_ns = MonotonicNs();
  VerifyReport report;
  outcome.result = mover_.Verify(ranges, files_, stage_bytes_, stop, &report);
  EndReading(ranges, start_ns, report.read, report.wrong, &outcome, wrong);
  return outcome;
}

Freezer::Outcome Freezer::Shift(uint64_t op_id, const Shifting& what, const std::atomic<bool>& stop,
                                std::vector<wire::WrongBlock>* wrong) {
  Outcome outcome;
  if (!HasBackups(&outcome)) return outcome;
  const bool to_host = what.to == wire::Place::kHost;
  std::vector<FilePart> taken = heap_.FilePartsOut();
  const std::vector<Range*> ranges = heap_.BeginReading({what.tags});
  const Bytes bytes =
      Shifter::BytesToMove(to_host ? Shifter::To::kHost : Shifter::To::kFiles, ranges);
  ledger_.BeginTransition(op_id, to_host ? std::min(bytes, what.host_bytes) : bytes);
  const uint64_t start_ns = MonotonicNs();
  ShiftReport report;
  if (bytes != 0 && files_.size() == 0) {
    report.left = bytes;
    outcome.result = MakeError(Code::kFailedPrecondition, "NO_FILES",
                               "the pause of this process has brought no files");
  } else if (bytes != 0 && to_host) {
    outcome.result = mover_.ToHost(ranges, files_, what.host_bytes, stage_bytes_, stop, &report);
  } else if (bytes != 0) {
    outcome.result = mover_.ToFiles(ranges, files_, std::move(taken), stage_bytes_, stop, &report);
  }
  EndReading(ranges, start_ns, report.moved, report.wrong, &outcome, wrong);
  outcome.stats.left_bytes = report.left;
  return outcome;
}

}  // namespace parkade::shim
