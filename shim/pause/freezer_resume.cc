// The way back: a resume of all or of some tags, and how a process goes on after it or after a
// pause that failed.
#include <utility>

#include "common/timeline.h"
#include "shim/pause/context_lost.h"
#include "shim/pause/freezer.h"
#include "shim/pause/gate.h"

namespace parkade::shim {
namespace {

using wire::GateMode;
using wire::ProcessState;

// For exporters that are resumed in the same moment to have their bytes back.
constexpr uint64_t kTakeBackMs = 30'000;

}  // namespace

Result<void> Freezer::TakeBackImports(uint64_t take_back_ms) {
  std::vector<int> gone;
  const Result<void> taken = imports_.TakeBack(Deadline::InMs(take_back_ms), &gone);
  // As native memory whose exporter has ended or freed it before its importers closed it: nobody
  // may touch it any more. It is no reason to hold this process for good.
  for (const int pid : gone) {
    ledger_.AddWarning("memory imported from process " + std::to_string(pid) +
                       " ended with it or was freed there, and is no longer mapped");
  }
  if (!taken.ok()) ledger_.AddWarning(taken.error().what);
  return taken;
}

Result<void> Freezer::GoOn(uint64_t take_back_ms) {
  if (shares_ && !(paused_ && paused_->brokers())) {
    if (const Result<void> taken = TakeBackImports(take_back_ms); !taken.ok()) {
      if (IsContextLost(taken.error().cuda)) {
        GiveUp();
      } else {
        SetState(ProcessState::kPartlyMoved);
      }
      return Explained(taken);
    }
    EndSharing();
  }
  if (paused_) {
    StayPaused();
    return {};
  }
  files_ = {};
  ledger_.SetHostPool(pool_.held());
  ledger_.SetGateMode(std::nullopt);
  SetState(ProcessState::kRunning);
  Gate::Open();
  return {};
}

void Freezer::StayPaused() {
  ledger_.SetHostPool(pool_.held());
  ledger_.SetGateMode(paused_->mode);
  SetState(ProcessState::kPaused);
  if (paused_->mode == GateMode::kOpen) {
    Gate::Open();
  } else {
    Gate::Settle(paused_->work, paused_->allocations);
  }
}

void Freezer::EndSharing() {
  if (!shares_) return;
  shares_ = false;
  exports_.SetPausing(false);
  imports_.Say(wire::ShareWord::kRunning);
}

void Freezer::GiveUp() {
  EndSharing();
  paused_.reset();
  undo_.reset();
  ledger_.SetGateMode(std::nullopt);
  SetState(ProcessState::kFailed);
  Gate::Open();
}

bool Freezer::runs_on() const {
  if (state_ == ProcessState::kRunning) return true;
  return state_ == ProcessState::kPaused && paused_->mode == GateMode::kOpen;
}

bool Freezer::left_partly_moved() const {
  return state_ == ProcessState::kPartlyMoved && !arrival_ && gate_order_.mode == GateMode::kOpen;
}

Freezer::Outcome Freezer::Resume(uint64_t op_id, uint64_t epoch, const Part& part) {
  Outcome outcome;
  if (!MayResume(epoch, &outcome)) return outcome;
  mover_.SetRetains(part.retains);
  if (part.undoes_pause && !undo_) {
    outcome.already = true;
    return outcome;
  }
  if (arrival_) {
    KeepArrival();
    paused_.reset();
    undo_.reset();
    outcome.result = GoOn(kTakeBackMs);
    outcome.stats.host_pool_bytes = pool_.held();
    return outcome;
  }
  Timeline timeline;
  const ProcessState before = state_;
  const bool was_closed = Gate::IsClosed();
  const std::vector<Range*> ranges =
      BeginRestore(op_id, {part.tags, part.undoes_pause ? undo_->pause : 0});
  timeline.Ended("begin");
  MoveReport report;
  const uint64_t start_ns = MonotonicNs();
  outcome.result = mover_.Restore(ranges, files_, stage_bytes_, &report);
  Report(report, start_ns, &outcome);
  timeline.Ended("move");
  Settle(ranges);
  ledger_.EndTransition();
  if (outcome.result.ok()) {
    NoteResume(part);
    const bool gate_stays = paused_ && was_closed == (paused_->mode == GateMode::kClosed);
    outcome.already = ranges.empty() && before == ProcessState::kPaused && gate_stays;
    outcome.result = GoOn(kTakeBackMs);
  } else if (IsContextLost(outcome.result.error().cuda)) {
    GiveUp();
    outcome.result = Explained(outcome.result);
  } else {
    SetState(before);
  }
  outcome.stats.host_pool_bytes = pool_.held();
  timeline.Ended("settle");
  timeline.Log("resume");
  return outcome;
}

void Freezer::NoteResume(const Part& part) {
  if (part.undoes_pause) {
    paused_ = undo_->paused;
  } else if (!heap_.AnyOut()) {
    paused_.reset();
  } else {
    if (!paused_) paused_ = gate_order_;  // what a failed undo has left out
    paused_->mode = Gate::IsClosed() ? part.mode : GateMode::kOpen;
  }
  undo_.reset();
}

void Freezer::NotePause() {
  undo_ = {last_pause_, paused_};
  paused_ = gate_order_;
}

Result<void> Freezer::TakeFiles(std::span<Fd> files, const DiskSetting& disk,
                                std::span<const FilePart> taken) {
  auto adopted = DirectFiles::Adopt(files, disk);
  if (!adopted.ok()) return adopted.error();
  // Those of before may have been meant for what is still in host memory.
  if (adopted->size() == 0) return {};
  if (!taken.empty() && !AreSameFiles(files_.fds(), adopted->fds())) {
    return MakeError(Code::kFailedPrecondition, "OTHER_FILES",
                     "bytes of this process are out in files that this pause does not bring; "
                     "resume it first");
  }
  files_ = std::move(*adopted);
  return {};
}

}  // namespace parkade::shim
