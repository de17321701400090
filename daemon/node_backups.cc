// Work on the backups of processes that stay paused, from selector to outcomes.
#include <algorithm>
#include <utility>

#include "common/text.h"
#include "daemon/errand.h"
#include "daemon/explain.h"
#include "daemon/goal.h"
#include "daemon/host_memory.h"
#include "daemon/mount_info.h"
#include "daemon/node_state.h"
#include "daemon/status.h"
#include "daemon/tags.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// What a process has on disk and not in host memory as well, under one of these tags if there are
// any; a range of which a part is there counts whole.
Bytes OnDiskAlone(const Process& process, const std::vector<std::string>& tags) {
  const auto ledger = process.Ledger();
  if (!ledger.ok()) return 0;
  Bytes bytes = 0;
  for (const wire::LedgerRecord& r : ledger->records) {
    if (wire::Place(r.place) != wire::Place::kDisk) continue;
    if (!tags.empty() && !IsNamed(r, tags)) continue;
    bytes = std::min(bytes + RoundUp(std::min<Bytes>(r.bytes, kMostClaimed), 4096), kMostClaimed);
  }
  return std::min<Bytes>(bytes, ledger->header.disk_backup_bytes);
}

Demand DemandOfPrefetch(const Process& process, Bytes bytes, const std::vector<MountInfo>& mounts) {
  Demand demand;
  demand.pid = process.pid();
  demand.by_tag[""] = bytes;
  demand.stays = true;
  if (process.identity().visible) demand.groups = MemoryGroupsOf(process.pid(), mounts);
  const ProcessView view = process.View();
  if (!view.ledger) return demand;
  // Backups that it keeps beside those that are out are left alone, and bytes pass through the
  // rest.
  const Bytes kept = view.ledger->host_backup_bytes + view.ledger->host_retained_bytes;
  demand.reusable = Less(view.ledger->host_pool_bytes, kept + wire::kShiftStage);
  return demand;
}

absl::Status NoRoom(const std::vector<Demand>& demands) {
  Bytes needed = 0;
  for (const Demand& demand : demands) needed += demand.by_tag.at("");
  return Fail(absl::StatusCode::kResourceExhausted, "HOST_MEMORY",
              Cat("there is host memory for none of ", InUnits(needed)),
              {{"needed_bytes", std::to_string(needed)}, {"free_bytes", "0"}});
}

}  // namespace

absl::StatusOr<ProcessList> NodeState::SelectOut(const Caller& caller, const Selector& selector,
                                                 bool allow_empty, Course& course) {
  auto selected = to_.registry.Select(caller, selector);
  if (allow_empty && ReasonOf(selected.status()) == "NO_PROCESS") return ProcessList{};
  if (!selected.ok()) return selected.status();
  if (auto s = AwaitReturn(*selected, course); !s.ok()) return s;
  ProcessList out;
  for (const auto& process : *selected) {
    if (IsOut(process->State())) out.push_back(process);
  }
  if (!out.empty()) return out;
  std::vector<int> pids;
  for (const auto& process : *selected) pids.push_back(process->pid());
  return Fail(absl::StatusCode::kFailedPrecondition, "NOT_PAUSED",
              Cat("process ", Join(pids, ", "), " is not paused: there is no backup"),
              {{"pid", std::to_string(pids.front())}});
}

absl::Status NodeState::Explain(const absl::Status& failed, const ProcessList& processes,
                                const Course& course) {
  std::vector<Member> members;
  for (const auto& process : processes) members.emplace_back().process = process;
  return NameBackup(Annotate(failed, "", {{"operation", course.origin().id}}), members);
}

absl::StatusOr<Outcomes> NodeState::Verify(const Caller& caller, const VerifyOrder& order,
                                           Course& course) {
  const auto out = SelectOut(caller, order.selector, order.allow_empty, course);
  if (!out.ok()) return out.status();
  if (out->empty()) return Outcomes{};
  course.Concerns(*out);
  course.Moves();
  Errand errand(*out, course, limits_.stall_ms, [&out](size_t i, const auto& round) {
    (*out)[i]->Send(wire::Make<wire::Verify>(), round, i);
  });
  const absl::Status read = errand.Run();
  if (read.ok()) return errand.outcomes();
  course.Report(errand.outcomes());
  return Explain(read, *out, course);
}

absl::StatusOr<Outcomes> NodeState::Prefetch(const Caller& caller, const PrefetchOrder& order,
                                             Course& course) {
  const auto out = SelectOut(caller, order.selector, order.allow_empty, course);
  if (!out.ok()) return out.status();
  for (const auto& process : *out) {
    if (process->View().deep.state == DeepMark::State::kNone) continue;
    return Fail(absl::StatusCode::kFailedPrecondition, "IS_DEEP",
                Cat("process ", process->pid(),
                    " is in a deep pause, in which it cannot pin host memory: resume it"),
                {{"pid", std::to_string(process->pid())}});
  }
  if (auto s = CheckNames(order.tags); !s.ok()) return s;
  if (!order.allow_empty) {
    if (auto s = CheckKnown(order.tags, TagsOf(*out)); !s.ok()) return s;
  }
  EndBehind(*out);
  Outcomes outcomes;
  ProcessList wanted;
  std::vector<Demand> demands;
  const auto mounts = ReadMounts();
  for (const auto& process : *out) {
    const Bytes bytes = OnDiskAlone(*process, order.tags);
    if (bytes != 0) {
      wanted.push_back(process);
      demands.push_back(DemandOfPrefetch(*process, bytes, mounts));
      continue;
    }
    Outcome& outcome = outcomes.emplace_back();
    outcome.pid = process->pid();
    outcome.already = true;
    outcome.state = process->State();
  }
  if (wanted.empty()) return outcomes;
  course.Concerns(wanted);
  // Booked until it shows in the measured figures.
  HostBudget::Booking booking(to_.budget);
  const auto grants = PlanHost(booking, {wire::Policy::kAuto, {}}, demands, wanted);
  if (!grants.ok()) return grants.status();
  if (std::all_of(grants->begin(), grants->end(), [](const Grant& g) { return g.host == 0; })) {
    return NoRoom(demands);
  }
  Errand errand(wanted, course, limits_.stall_ms, [&](size_t i, const auto& round) {
    auto shift = wire::Make<wire::Shift>();
    shift.to = uint32_t(wire::Place::kHost);
    shift.host_bytes = (*grants)[i].host;
    for (const std::string& tag : order.tags) CopyText(shift.tags[shift.tag_count++], tag);
    wanted[i]->Send(shift, round, i);
  });
  course.Moves();
  const absl::Status moved = errand.Run();
  outcomes.insert(outcomes.end(), errand.outcomes().begin(), errand.outcomes().end());
  if (moved.ok()) return outcomes;
  course.Report(outcomes);
  return Explain(moved, wanted, course);
}

}  // namespace parkade::daemon
