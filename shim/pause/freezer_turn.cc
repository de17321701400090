// A resume in two steps, for a process that changes places with another one.
#include "shim/pause/context_lost.h"
#include "shim/pause/freezer.h"

namespace parkade::shim {

using wire::ProcessState;

Freezer::Outcome Freezer::Arrive(uint64_t op_id, uint64_t epoch) {
  Outcome outcome;
  if (!MayResume(epoch, &outcome) || arrival_) return outcome;
  const ProcessState before = state_;
  const std::vector<Range*> ranges = BeginRestore(op_id);
  MoveReport report;
  const uint64_t start_ns = MonotonicNs();
  auto arrival = mover_.BringIn(ranges, files_, stage_bytes_, room_, abort_requested_, &report);
  Report(report, start_ns, &outcome);
  ledger_.EndTransition();
  outcome.stats.host_pool_bytes = pool_.held();
  if (arrival.ok()) {
    arrival_ = std::move(*arrival);
    arrived_from_ = before;
    SetState(ProcessState::kPartlyMoved);
    return outcome;
  }
  Settle(ranges);
  outcome.result = arrival.error();
  if (IsContextLost(outcome.result.error().cuda)) {
    GiveUp();
    outcome.result = Explained(outcome.result);
  } else {
    SetState(before);
  }
  return outcome;
}

bool Freezer::MayResume(uint64_t epoch, Outcome* outcome) {
  ledger_.SetEpoch(epoch);
  if (state_ == ProcessState::kPaused || state_ == ProcessState::kPartlyMoved) return true;
  if (state_ == ProcessState::kRunning) {
    outcome->already = true;
  } else {
    *outcome = Refuse("resume");
  }
  return false;
}

std::vector<Range*> Freezer::BeginRestore(uint64_t op_id, const Wanted& wanted) {
  std::vector<Range*> ranges = heap_.BeginRestore(wanted);
  ledger_.BeginTransition(op_id, BytesOut(ranges));
  SetState(ProcessState::kRestoring);
  return ranges;
}

void Freezer::KeepArrival() {
  mover_.Keep(*arrival_);
  Settle(arrival_->ranges);
  arrival_.reset();
}

void Freezer::SendBackArrival() {
  mover_.TakeBack(*arrival_);
  Settle(arrival_->ranges);
  arrival_.reset();
  SetState(arrived_from_);
}

void Freezer::Report(const MoveReport& report, uint64_t start_ns, Outcome* outcome) {
  outcome->stats.move_ns = MonotonicNs() - start_ns;
  outcome->stats.host_bytes = report.moved.host;
  outcome->stats.disk_bytes = report.moved.disk;
  outcome->stats.elided_bytes = report.moved.elided;
  outcome->stats.released_bytes = report.released_bytes;
  outcome->stats.needed_bytes = report.needed_bytes;
  outcome->stats.free_bytes = report.free_bytes;
  outcome->device = report.device;
}

}  // namespace parkade::shim
