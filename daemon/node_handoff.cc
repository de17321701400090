// A handoff, from its selectors to the outcomes of both sides.
#include <algorithm>
#include <utility>

#include "common/text.h"
#include "daemon/begun.h"
#include "daemon/exchange.h"
#include "daemon/explain.h"
#include "daemon/movement.h"
#include "daemon/node_state.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

using wire::ProcessState;

absl::StatusOr<ProcessList> SelectSide(const Registry& registry, const Caller& caller,
                                       const Selector& selector, bool allow_empty) {
  auto selected = registry.Select(caller, selector);
  if (allow_empty && ReasonOf(selected.status()) == "NO_PROCESS") return ProcessList{};
  return selected;
}

std::vector<std::string> NamesOf(const GpuAccount::ByGpu& bytes) {
  std::vector<std::string> uuids;
  for (const auto& [uuid, count] : bytes) uuids.push_back(uuid);
  return uuids;
}

// What both sides had on the GPUs of this outcome goes with it.
void AddBounds(const std::vector<GpuChange>& bounds, Outcome& outcome) {
  for (GpuChange& gpu : outcome.gpus) {
    const auto at = std::find_if(bounds.begin(), bounds.end(),
                                 [&](const GpuChange& b) { return b.uuid == gpu.uuid; });
    if (at == bounds.end()) continue;
    gpu.peak = at->peak;
    gpu.allowed = at->allowed;
  }
}

}  // namespace

absl::StatusOr<NodeState::Sides> NodeState::SelectSides(const Caller& caller,
                                                        const HandoffOrder& order) const {
  Sides sides;
  auto out = SelectSide(to_.registry, caller, order.outgoing.selector, order.outgoing.allow_empty);
  if (!out.ok()) return out.status();
  auto in = SelectSide(to_.registry, caller, order.incoming.selector, order.incoming.allow_empty);
  if (!in.ok()) return in.status();
  for (const auto& process : *out) {
    if (std::find(in->begin(), in->end(), process) == in->end()) continue;
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_SELECTOR",
                Cat("process ", process->pid(), " is to go out and to come in"),
                {{"pid", std::to_string(process->pid())}});
  }
  sides.out_processes = std::move(*out);
  sides.in_processes = std::move(*in);
  return sides;
}

absl::Status NodeState::CheckFit(const Sides& sides, const HandoffOrder& order) const {
  const GpuAccount::ByGpu needed = Lacking(sides.in);
  GpuAccount::ByGpu leaving = Leaving(sides.out, order.outgoing.policies);
  for (const auto& [uuid, bytes] : needed) {
    GpuAccount::Room room = to_.account.RoomOn(uuid, order.incoming.priority);
    // Who takes no more than what leaves takes nobody's turn.
    if (bytes <= leaving[uuid]) room.ahead = 0;
    if (!room.free || room.HasFor(bytes, leaving[uuid])) continue;
    const absl::Status failed = Fail(absl::StatusCode::kResourceExhausted, "GPU_MEMORY",
                                     Cat("who comes in does not fit: ", InUnits(leaving[uuid]),
                                         " would be given back; ", "nothing has moved"));
    Metadata figures = room.Figures();
    figures["leaving_bytes"] = std::to_string(leaving[uuid]);
    return Annotate(ExplainShortage(failed, {{uuid, bytes}}, to_.gpus), "", figures);
  }
  return absl::OkStatus();
}

absl::StatusOr<Outcomes> NodeState::Handoff(const Caller& caller, const HandoffOrder& order,
                                            Course& course) {
  if (auto s = Check(order.outgoing); !s.ok()) return s;
  auto sides = SelectSides(caller, order);
  if (!sides.ok()) return sides.status();
  ProcessList all = sides->out_processes;
  all.insert(all.end(), sides->in_processes.begin(), sides->in_processes.end());
  if (all.empty()) return Outcomes{};
  const uint64_t epoch = order.outgoing.epoch;
  const auto claim = Take(all, epoch, course);
  if (!claim.ok()) return claim.status();
  auto out = MembersFor(sides->out_processes,
                        PausedBy(order.outgoing.policies, order.outgoing.gate.mode), epoch);
  if (!out.ok()) return out.status();
  auto in = MembersFor(sides->in_processes, ResumedBy(order.incoming), epoch);
  if (!in.ok()) return in.status();
  sides->out = std::move(*out);
  sides->in = std::move(*in);

  std::vector<Member> both = sides->out;
  both.insert(both.end(), sides->in.begin(), sides->in.end());
  MarkTurn(sides->out, false);
  const Begun begun(to_.journal, OperationKind::kHandoff, both, course.origin());
  Movement movement(to_.gpus, all);
  std::vector<Scratch::Use> uses(sides->out.size());
  std::vector<GpuChange> bounds;
  Timeline timeline(course.arrived_ns());
  timeline.Ended("claim");
  const absl::Status swapped = Swap(*sides, uses, order, course, timeline, &bounds);
  Settle(sides->out, uses, swapped);
  to_.account.Changed();
  if (!swapped.ok()) {
    both = sides->out;
    both.insert(both.end(), sides->in.begin(), sides->in.end());
    const absl::Status named = ExplainMemlock(NameEnd(NameBackup(swapped, both), both));
    if (ReasonOf(named) != "GPU_MEMORY" || MetadataOf(named).contains("holders")) return named;
    return ExplainShortage(named, Lacking(sides->in), to_.gpus);
  }
  movement.Look();
  for (const Member& member : sides->in) {
    if (!member.already) member.process->ComesIn();
  }
  TakeOver(sides->out);
  Outcomes outcomes;
  for (const Member& member : sides->out) {
    outcomes.push_back(movement.OutcomeOf(member, ProcessState::kPaused, course.arrived_ns()));
  }
  for (const Member& member : sides->in) {
    Outcome& outcome = outcomes.emplace_back(
        movement.OutcomeOf(member, ProcessState::kRunning, course.arrived_ns()));
    if (!member.already) outcome.stats = member.prepared.stats;  // the gate's opening moved nothing
  }
  for (Outcome& outcome : outcomes) AddBounds(bounds, outcome);
  const std::span<const Outcome> all_outcomes(outcomes);
  Note(Way::kOut, all_outcomes.first(sides->out.size()));
  Note(Way::kIn, all_outcomes.subspan(sides->out.size()));
  BeginBehind(order.outgoing, sides->out, course, outcomes);
  timeline.Ended("report");
  timeline.Log("handoff");
  return outcomes;
}

absl::Status NodeState::Swap(Sides& sides, std::vector<Scratch::Use>& uses,
                             const HandoffOrder& order, Course& course, Timeline& timeline,
                             std::vector<GpuChange>* bounds) {
  HostBudget::Booking booking(to_.budget);
  const uint64_t epoch = order.outgoing.epoch;
  Transition out(sides.out, to_.events, limits_, epoch, &course);
  Transition in(sides.in, to_.events, limits_, epoch, &course);
  if (auto s = Provide(sides.out, uses, order.outgoing, booking); !s.ok()) return s;
  if (auto s = CheckFit(sides, order); !s.ok()) return s;
  // What comes in turn is asked of shims, whose driver must answer them.
  if (auto s = Surface(sides.in, order.incoming.priority); !s.ok()) return s;
  timeline.Ended("plan");
  const bool any_out =
      std::any_of(sides.out.begin(), sides.out.end(), [](const Member& m) { return !m.already; });
  if (any_out) {
    if (auto s = out.Prepare(order.outgoing.gate); !s.ok()) return s;
    timeline.Ended("prepare");
    // The applications went on allocating until their gates closed; now the figures are exact.
    absl::Status ready = Provide(sides.out, uses, order.outgoing, booking);
    if (ready.ok()) ready = CheckFit(sides, order);
    if (!ready.ok()) {
      out.Abort();
      return ready;
    }
  }
  for (const auto& process : sides.in_processes) process->EndBehind();
  const GpuAccount::ByGpu needed = Lacking(sides.in);
  GpuAccount::Booking promise(
      to_.account,
      {[processes = sides.in_processes] { return ResidentOf(processes); }, [] { return false; }});
  promise.Promise(needed);
  Pace pace(sides.out, sides.in, order.overlap, to_.gpus.Free(NamesOf(needed)));
  timeline.Ended("plan");
  const absl::Status moved = Exchange(out, in, pace, course, limits_.stall_ms)
                                 .Run({order.outgoing.policies, order.outgoing.chunk_bytes},
                                      order.incoming.release_host, timeline);
  timeline.Ended("open");
  for (const auto& [uuid, bytes] : needed) {
    GpuChange& bound = bounds->emplace_back();
    bound.uuid = uuid;
    bound.peak = pace.PeakOn(uuid);
    bound.allowed = pace.AllowedOn(uuid);
  }
  return moved;
}

absl::StatusOr<GpuAccount::Room> NodeState::WaitFree(const std::string& uuid, Bytes bytes,
                                                     Deadline by,
                                                     const std::function<bool()>& gives_up) {
  GpuAccount::Room room = to_.account.WaitForRoom(uuid, bytes, by, gives_up);
  if (room.HasFor(bytes)) return room;
  if (!room.free && to_.gpus.source() != "nvml") {
    return NoFigures(to_.gpus);
  }
  if (!room.free) return NoGpu(uuid);
  const absl::Status failed = Fail(
      absl::StatusCode::kResourceExhausted, "GPU_MEMORY",
      Cat(InUnits(room.booked), " of it booked by others, ", InUnits(room.reserved), " reserved"));
  room.ahead = 0;  // it stands in no queue
  return Annotate(ExplainShortage(failed, {{uuid, bytes}}, to_.gpus), "", room.Figures());
}

}  // namespace parkade::daemon
