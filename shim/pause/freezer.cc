// The states of one process and the steps between them.
#include "shim/pause/freezer.h"

#include <time.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/timeline.h"
#include "shim/pause/context_lost.h"
#include "shim/pause/drain.h"
#include "shim/pause/gate.h"

namespace parkade::shim {
namespace {

using wire::GateMode;
using wire::ProcessState;

// For importers of a group to unmap, which takes them milliseconds; one that hangs keeps the memory
// in HBM.
constexpr uint64_t kLetGoMs = 5000;
// In an undo the exporter may be resumed only after this process has answered; who is then partly
// moved is resumed with it.
constexpr uint64_t kTakeBackInUndoMs = 200;

const char* NameOf(ProcessState state) {
  switch (state) {
    case ProcessState::kPrepared:
      return "prepared for a pause";
    case ProcessState::kPaused:
      return "paused";
    case ProcessState::kPartlyMoved:
      return "partly moved";
    case ProcessState::kFailed:
      return "without a usable context";
    default:
      return "running";
  }
}

Error Exported(const std::vector<int>& importers) {
  std::string pids;
  for (const int pid : importers) pids += (pids.empty() ? "" : ", ") + std::to_string(pid);
  return MakeError(Code::kFailedPrecondition, "EXPORTED",
                   "memory of this process is mapped by process %s, which does not pause with it; "
                   "nothing has changed",
                   pids.c_str());
}

void Nap() {
  const timespec t{0, 1'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
}

bool IsResident(const Range& range) {
  return std::all_of(range.pieces.begin(), range.pieces.end(),
                     [](const Piece& piece) { return piece.handle != 0; });
}

}  // namespace

Freezer::Freezer(const Driver& driver, Heap& heap, LedgerWriter& ledger, HostPool& pool,
                 Drain& drain, ShareServer& exports, Imports& imports, ForeignRelease& release,
                 MakeEngine make_engine)
    : heap_(heap),
      ledger_(ledger),
      pool_(pool),
      drain_(drain),
      exports_(exports),
      imports_(imports),
      release_(release),
      mover_(driver, drain.contexts(), heap.memory(), pool, ledger, make_engine) {}

Freezer::Outcome Freezer::Refuse(const char* asked) const {
  Outcome outcome;
  outcome.result = MakeError(Code::kFailedPrecondition,
                             state_ == ProcessState::kFailed ? "CONTEXT_LOST" : "BUSY",
                             "%s: the process is %s", asked, NameOf(state_));
  return outcome;
}

void Freezer::SetState(ProcessState state) {
  state_ = state;
  ledger_.SetState(state);
}

Freezer::Outcome Freezer::Prepare(Deadline drain_by, const GateOrder& order) {
  Outcome outcome;
  // Also where nothing is to be done: whoever has a lower epoch is stale from now on.
  ledger_.SetEpoch(order.epoch);
  undo_.reset();
  const bool gate_stays =
      paused_ && (paused_->mode == GateMode::kClosed || order.mode == GateMode::kOpen);
  const bool prepared = state_ == ProcessState::kPrepared;
  if (prepared || (state_ == ProcessState::kPaused && gate_stays)) {
    outcome.stats.pausable_bytes = heap_.Count().live;
    outcome.already = prepared || outcome.stats.pausable_bytes == 0;
    if (outcome.already) return outcome;
  }
  if (state_ != ProcessState::kRunning && state_ != ProcessState::kPaused) return Refuse("pause");

  gate_order_ = order;
  if (gate_stays) {
    gate_order_.mode = paused_->mode;
    // What others have let go of stays so until the gate opens.
    if (paused_->brokers()) gate_order_.exported = paused_->exported;
  }
  ledger_.SetGateMode(gate_order_.mode);
  SetState(ProcessState::kPreparing);
  outcome.result = Close(drain_by, &outcome);
  if (!outcome.result.ok()) {
    if (IsFault(outcome.result.error().cuda)) {
      GiveUp();
    } else {
      (void)GoOn(kTakeBackInUndoMs);  // nothing was let go yet
    }
    return outcome;
  }
  if (gate_order_.brokers()) {
    shares_ = true;
    exports_.SetPausing(true);
    imports_.Say(wire::ShareWord::kPrepared);
  }
  outcome.stats.pausable_bytes = heap_.Count().live;
  SetState(ProcessState::kPrepared);
  return outcome;
}

Result<void> Freezer::Close(Deadline by, Outcome* outcome) {
  // Once for each time that Nudge has let something through meanwhile, and once more.
  do {
    const uint64_t start_ns = MonotonicNs();
    const Result<void> closed = Gate::Close(by, abort_requested_, !HeldShut());
    outcome->stats.gate_ns += MonotonicNs() - start_ns;
    if (!closed.ok()) return Unclosed(closed.error(), start_ns);
    if (auto drained = Drained(by, outcome); !drained.ok()) return drained;
  } while (!Gate::Seal());
  return {};
}

Error Freezer::Unclosed(const Error& error, uint64_t since_ns) {
  if (std::string_view(error.reason) != "BUSY") return error;
  // Which streams work is not asked: the thread may be destroying one of them, or their context.
  return MakeError(error.code, "BUSY", "%s for %.1f s; nothing has changed", error.what,
                   double(MonotonicNs() - since_ns) / 1e9);
}

Result<void> Freezer::Drained(Deadline by, Outcome* outcome) {
  const uint64_t start_ns = MonotonicNs();
  auto drained = drain_.Run(by, abort_requested_, &outcome->device);
  outcome->stats.drain_ns += MonotonicNs() - start_ns;
  return drained;
}

Freezer::Outcome Freezer::LetThrough(uint32_t calls, Deadline drain_by, Deadline arrival_by) {
  Outcome outcome;
  if (state_ != ProcessState::kPrepared) return Refuse("let a call through");
  if (HeldShut()) {
    // What waits there may be about what is out: nothing comes.
    while (!arrival_by.Passed() && !abort_requested_.load(std::memory_order_acquire)) Nap();
    outcome.stats.pausable_bytes = heap_.Count().live;
    return outcome;
  }
  const uint64_t start_ns = MonotonicNs();
  const Result<uint32_t> passed = Gate::LetSome(calls, arrival_by, drain_by, abort_requested_);
  if (!passed.ok()) {
    outcome.result = Unclosed(passed.error(), start_ns);
  } else if (*passed != 0) {
    outcome.stats.let_through = *passed;
    outcome.result = Drained(drain_by, &outcome);
    if (outcome.result.ok() && !Gate::Seal()) outcome.result = Close(drain_by, &outcome);
  }
  outcome.stats.pausable_bytes = heap_.Count().live;
  if (!outcome.result.ok()) (void)GoOn(kTakeBackInUndoMs);
  return outcome;
}

Freezer::Outcome Freezer::Abort() {
  Outcome outcome;
  if (state_ == ProcessState::kPrepared) outcome.result = GoOn(kTakeBackInUndoMs);
  if (arrival_) SendBackArrival();
  return outcome;
}

Freezer::Outcome Freezer::Commit(uint64_t op_id, const EvictionPlan& plan) {
  Outcome outcome;
  if (state_ == ProcessState::kPaused) {
    outcome.already = true;
    return outcome;
  }
  if (state_ != ProcessState::kPrepared) return Refuse("commit");
  ++last_pause_;
  outcome.result = Explained(Evict(op_id, plan, &outcome));
  // What could not be undone now may be later.
  if (state_ == ProcessState::kPartlyMoved) undo_ = {last_pause_, paused_};
  outcome.stats.host_pool_bytes = pool_.held();
  return outcome;
}

Result<void> Freezer::Evict(uint64_t op_id, const EvictionPlan& granted, Outcome* outcome) {
  Timeline timeline;
  EvictionPlan plan = granted;
  plan.taken = heap_.FilePartsOut();
  if (auto taken = TakeFiles(plan.files, plan.disk, plan.taken); !taken.ok()) {
    (void)GoOn(kTakeBackInUndoMs);
    return taken;
  }
  stage_bytes_ = plan.chunk_bytes;
  if (gate_order_.brokers()) {
    // Every process of the group is prepared: what two of them map leaves HBM with both. Undo:
    // GoOn.
    imports_.LetGo();
    exports_.WaitForImporters(Deadline::InMs(kLetGoMs), abort_requested_);
  }
  if (gate_order_.exported == wire::OnExported::kRefuse) {
    if (const auto importers = exports_.Importers(); !importers.empty()) {
      (void)GoOn(kTakeBackInUndoMs);
      return Exported(importers);
    }
  }
  timeline.Ended("let go");
  // The rest of the program's memory is its own affair where it pauses some itself.
  if (!plan.own) release_.Run(abort_requested_);
  timeline.Ended("foreign");
  // From here on every range is ours; Settle hands them back in each way out.
  const std::vector<Range*> ranges = heap_.BeginEviction(plan.own.value_or(Wanted{}));
  for (Range* range : ranges) range->pause = last_pause_;
  // What does not move has no use for host memory that this pause may have been promised.
  if (!plan.own) heap_.TakeHostBackings();
  if (plan.own) plan.host_bytes = HostRoom(ranges);
  const auto order = OrderEviction(ranges, plan, files_.capacity());
  if (!order.ok()) {
    Settle(ranges);
    (void)GoOn(kTakeBackInUndoMs);
    return order.error();
  }
  // Before the state: who sees it sees this operation's progress and not the last one's.
  ledger_.BeginTransition(op_id, order->host_bytes + order->disk_bytes + order->discarded_bytes);
  SetState(ProcessState::kEvicting);
  timeline.Ended("order");
  MoveReport report;
  const uint64_t start_ns = MonotonicNs();
  const Result<void> moved = mover_.Evict(*order, plan, files_, abort_requested_, &report);
  Report(report, start_ns, outcome);
  timeline.Ended("move");
  outcome->stats.kept_bytes = order->kept_bytes + heap_.HeldBytes();
  if (!moved.ok()) {
    UndoEviction(ranges);
    return moved;
  }
  outcome->stats.discarded_bytes = order->discarded_bytes;
  outcome->already = order->moves.empty() && paused_ && paused_->mode == gate_order_.mode;
  NotePause();
  Settle(ranges);
  ledger_.EndTransition();
  StayPaused();
  timeline.Ended("settle");
  timeline.Log("commit");
  return {};
}

void Freezer::UndoEviction(const std::vector<Range*>& ranges) {
  MoveReport report;
  const Result<void> undone = mover_.Restore(ranges, files_, stage_bytes_, &report);
  Settle(ranges);
  ledger_.EndTransition();
  if (undone.ok()) {
    (void)GoOn(kTakeBackInUndoMs);
    return;
  }
  ledger_.SetHostPool(pool_.held());
  ledger_.AddWarning(undone.error().what);
  if (IsContextLost(undone.error().cuda)) {
    GiveUp();
  } else {
    SetState(ProcessState::kPartlyMoved);
  }
}

void Freezer::Settle(const std::vector<Range*>& ranges) {
  // Before it is in the other figures: for a moment too much HBM is shown as held, never too
  // little.
  ledger_.ClearShifted();
  for (Range* range : ranges) {
    if (IsResident(*range)) {
      mover_.KeepBacking(*range);
      heap_.MovedIn(range);
    } else {
      heap_.MovedOut(range, PlaceOf(*range));
    }
  }
}

}  // namespace parkade::shim
