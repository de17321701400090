// What would come of an order now.
#include <algorithm>
#include <span>
#include <utility>

#include "daemon/explain.h"
#include "daemon/node_state.h"
#include "daemon/status.h"

namespace parkade::daemon {
namespace {

// What there is of these tags in host memory and on disk, by the ledger's records.
void CountParts(const Process& process, const std::vector<std::string>& tags,
                ProcessForecast& forecast) {
  forecast.host = forecast.disk = 0;
  const auto ledger = process.Ledger();
  if (!ledger.ok()) return;
  for (const wire::LedgerRecord& r : ledger->records) {
    if (!IsNamed(r, tags)) continue;
    if (wire::Place(r.place) == wire::Place::kHost) forecast.host += r.bytes;
    if (wire::Place(r.place) == wire::Place::kDisk) forecast.disk += r.bytes;
  }
}

// Nobody is selected; an error unless that is allowed.
bool TakeSelected(absl::StatusOr<ProcessList> selected, bool allow_empty, ProcessList* processes,
                  Forecast& forecast) {
  if (selected.ok()) *processes = std::move(*selected);
  const bool allowed = allow_empty && ReasonOf(selected.status()) == "NO_PROCESS";
  if (!allowed) forecast.Refuse(selected.status());
  return selected.ok();
}

}  // namespace

void NodeState::Note(Way way, std::span<const Outcome> outcomes) {
  for (const Outcome& outcome : outcomes) {
    if (!outcome.already) rates_.Note(way, outcome.stats);
  }
}

std::vector<Member> NodeState::Foresee(const ProcessList& processes, const AtGoal& at_goal,
                                       uint64_t epoch, Forecast& forecast) const {
  std::vector<Member> members;
  for (const auto& process : processes) {
    forecast.Refuse(to_.registry.CheckFree(*process));
    forecast.Refuse(CheckEpoch({process}, epoch));
    auto member = MembersFor({process}, at_goal, epoch);
    forecast.Refuse(member.status());
    if (member.ok()) {
      members.push_back(std::move(member->front()));
    } else {
      members.emplace_back().process = process;  // what it would take is told all the same
    }
  }
  return members;
}

void NodeState::ForetellOut(const std::vector<Member>& members, const PauseOrder& order,
                            Forecast& forecast) const {
  const auto demands = DemandsOf(members, order.chunk_bytes);
  forecast.Refuse(demands.status());
  if (!demands.ok()) return;
  auto grants = to_.budget.Foretell(order.policies, *demands);
  forecast.Refuse(grants.status());
  if (!grants.ok()) {
    // What it would take is told without regard to what there is.
    std::vector<Demand> unbounded = *demands;
    for (Demand& demand : unbounded) demand.groups.clear();
    Policies policies = order.policies;
    policies.allow_unknown = true;
    grants = Plan(policies, unbounded, Bytes(1) << 62);
  }
  if (!grants.ok()) return;
  for (size_t i = 0; i < members.size(); ++i) {
    ProcessForecast& process = forecast.processes.emplace_back();
    process.pid = members[i].process->pid();
    process.already = members[i].already;
    if (process.already) continue;
    process.tags = SharesOf(order.policies, (*demands)[i], (*grants)[i]);
    for (const TagShare& tag : process.tags) {
      process.host += tag.host;
      process.disk += tag.disk;
    }
    process.new_host = (*grants)[i].new_host;
    if ((*grants)[i].disk == 0) continue;
    forecast.Refuse(to_.scratch.Foretell(*members[i].process, order.scratch_base,
                                         members[i].disk_out + (*grants)[i].disk,
                                         members[i].disk_out));
  }
}

void NodeState::ForetellIn(const std::vector<Member>& members, const std::vector<std::string>& tags,
                           Forecast& forecast) const {
  for (const Member& member : members) {
    ProcessForecast& process = forecast.processes.emplace_back();
    process.pid = member.process->pid();
    process.already = member.already;
    const ProcessView view = member.process->View();
    if (process.already || !view.ledger) continue;
    process.needed = Lacking({member}, tags);
    process.host = view.ledger->host_backup_bytes;
    process.disk = view.ledger->disk_backup_bytes;
    if (!tags.empty()) CountParts(*member.process, tags, process);
  }
}

Forecast NodeState::Foretell(const Caller& caller, const PauseOrder& order) const {
  Forecast forecast;
  forecast.Refuse(Check(order));
  ProcessList processes;
  if (!forecast.refusals.empty() || !TakeSelected(to_.registry.Select(caller, order.selector),
                                                  order.allow_empty, &processes, forecast)) {
    return forecast;
  }
  const AtGoal at_goal = PausedBy(order.policies, order.gate.mode);
  ForetellOut(Foresee(processes, at_goal, order.epoch, forecast), order, forecast);
  Estimate(Way::kOut, forecast.processes, &forecast.seconds);
  return forecast;
}

Forecast NodeState::Foretell(const Caller& caller, const ResumeOrder& order) const {
  Forecast forecast;
  forecast.Refuse(Check(order));
  ProcessList processes;
  if (!forecast.refusals.empty() || !TakeSelected(to_.registry.Select(caller, order.selector),
                                                  order.allow_empty, &processes, forecast)) {
    return forecast;
  }
  forecast.Refuse(CheckParts(order, processes));
  const auto members = Foresee(processes, ResumedBy(order), order.epoch, forecast);
  ForetellIn(members, order.tags, forecast);
  for (const auto& [uuid, bytes] : Lacking(members, order.tags)) {
    const GpuAccount::Room room = to_.account.RoomOn(uuid, order.priority);
    if (!room.free || room.HasFor(bytes + room.ahead)) continue;
    const absl::Status failed = Fail(absl::StatusCode::kResourceExhausted, "GPU_MEMORY",
                                     "the GPU memory is not free", room.Figures());
    forecast.Refuse(ExplainShortage(failed, {{uuid, bytes}}, to_.gpus));
  }
  Estimate(Way::kIn, forecast.processes, &forecast.seconds);
  return forecast;
}

Forecast NodeState::Foretell(const Caller& caller, const HandoffOrder& order) const {
  Forecast forecast;
  forecast.Refuse(Check(order.outgoing));
  auto sides = SelectSides(caller, order);
  forecast.Refuse(sides.status());
  if (!forecast.refusals.empty()) return forecast;
  const uint64_t epoch = order.outgoing.epoch;
  sides->out =
      Foresee(sides->out_processes, PausedBy(order.outgoing.policies, order.outgoing.gate.mode),
              epoch, forecast);
  sides->in = Foresee(sides->in_processes, ResumedBy(order.incoming), epoch, forecast);
  ForetellOut(sides->out, order.outgoing, forecast);
  const size_t out_count = forecast.processes.size();
  ForetellIn(sides->in, {}, forecast);
  forecast.Refuse(CheckFit(*sides, order));
  // Both at once: the slower side counts, or, one after the other, both.
  double out_seconds = 0, in_seconds = 0;
  const std::span processes(forecast.processes);
  const bool out_known = Estimate(Way::kOut, processes.first(out_count), &out_seconds);
  const bool in_known = Estimate(Way::kIn, processes.subspan(out_count), &in_seconds);
  if (!out_known || !in_known) return forecast;
  forecast.seconds = order.overlap == Overlap::kOrdered ? out_seconds + in_seconds
                                                        : std::max(out_seconds, in_seconds);
  return forecast;
}

bool NodeState::Estimate(Way way, std::span<const ProcessForecast> processes,
                         double* seconds) const {
  double longest = 0;
  for (const ProcessForecast& process : processes) {
    if (process.already) continue;
    const auto mine = rates_.SecondsFor(way, process.host, process.disk);
    if (!mine) return false;
    longest = std::max(longest, *mine);
  }
  *seconds = longest;
  return true;
}

}  // namespace parkade::daemon
