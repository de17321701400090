// One order after another, from selector to outcome.
#include "daemon/node_state.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/begun.h"
#include "daemon/explain.h"
#include "daemon/host_reclaim.h"
#include "daemon/movement.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

using wire::ProcessState;

// For what an earlier daemon has left to be dealt with: the wait for it to come back and for room,
// and a resume that stalls. One that moves bytes for longer is BUSY.
constexpr uint64_t kReturnMs = 70'000;

// Whether more host memory on the node would help; in a control group it would not.
bool LacksHostMemory(const absl::StatusOr<std::vector<Grant>>& grants) {
  if (!grants.ok()) {
    return ReasonOf(grants.status()) == "HOST_MEMORY" &&
           !MetadataOf(grants.status()).contains("cgroup");
  }
  return std::any_of(grants->begin(), grants->end(), [](const Grant& g) { return g.spills; });
}

// Of a job's budget only that job's own processes can give something back. False: it is no job's.
bool LeaveAlone(const Metadata& failed, const Registry& registry, ProcessList& asked) {
  const auto job = failed.find("job");
  if (job == failed.end() || job->second.empty()) return false;
  for (const auto& process : registry.All()) {
    if (process->View().introduction.job != job->second) asked.push_back(process);
  }
  return true;
}

// False: more than one of the GPUs has. No wait brings that, it would only hold up those behind.
bool CanEverFit(const GpuAccount::ByGpu& needed, const Gpus& gpus) {
  const auto views = gpus.Read();
  return std::all_of(views.begin(), views.end(), [&](const GpuView& gpu) {
    const auto at = needed.find(gpu.uuid);
    return at == needed.end() || gpu.total == 0 || at->second <= gpu.total;
  });
}

// What is still to go on to its files, by a write-behind.
Bytes Following(const Process& process) {
  const ProcessView view = process.View();
  if (process.behind() == 0 || !view.ledger) return 0;
  return std::min<Bytes>(view.ledger->host_backup_bytes, kMostClaimed);
}

// Nobody is selected, and that is all right with the caller.
template <typename Order>
bool IsEmpty(const absl::Status& claimed, const Order& order) {
  return order.allow_empty && ReasonOf(claimed) == "NO_PROCESS";
}

}  // namespace

absl::StatusOr<NodeState::Claimed> NodeState::Claim(const Caller& caller, const Selector& selector,
                                                    uint64_t epoch, const AtGoal& at_goal,
                                                    Course& course) {
  auto selected = to_.registry.Select(caller, selector);
  if (!selected.ok()) return selected.status();
  auto claim = Take(*selected, epoch, course);
  if (!claim.ok()) return claim.status();
  auto members = MembersFor(*selected, at_goal, epoch);
  if (!members.ok()) return members.status();
  return Claimed{std::move(*claim), std::move(*selected), std::move(*members)};
}

absl::StatusOr<Registry::Claim> NodeState::Take(const ProcessList& processes, uint64_t epoch,
                                                Course& course) {
  if (auto s = AwaitReturn(processes, course); !s.ok()) return s;
  auto claim = to_.registry.Take(processes);
  if (!claim.ok()) return claim.status();
  if (auto s = CheckEpoch(processes, epoch); !s.ok()) return s;
  return claim;
}

absl::Status NodeState::AwaitReturn(const ProcessList& processes, Course& course) {
  course.Concerns(processes);
  for (const Deadline by = Deadline::InMs(kReturnMs);
       !to_.returning.Await(processes, Deadline::InMs(Course::kLookMs)) && !by.Passed();) {
    if (course.cancelled()) return course.Cancellation();
  }
  return absl::OkStatus();
}

absl::StatusOr<Outcomes> NodeState::Pause(const Caller& caller, const PauseOrder& order,
                                          Course& course) {
  if (auto s = Check(order); !s.ok()) return s;
  auto claimed =
      Claim(caller, order.selector, order.epoch, PausedBy(order.policies, order.gate.mode), course);
  if (IsEmpty(claimed.status(), order)) return Outcomes{};
  if (!claimed.ok()) return claimed.status();
  std::vector<Member>& members = claimed->members;

  // Its helpers open the driver while bytes move.
  std::optional<DeepPause> deep;
  if (order.deep) deep.emplace(DeepOf(members, DeepMark::State::kNone));
  MarkTurn(members, order.for_turn);
  const Begun begun(to_.journal, OperationKind::kPause, members, course.origin());
  Movement movement(to_.gpus, claimed->processes);
  std::vector<Scratch::Use> uses(members.size());
  Timeline timeline(course.arrived_ns());
  timeline.Ended("claim");
  const absl::Status evicted = Evict(members, uses, order, course, timeline);
  Settle(members, uses, evicted);
  if (!evicted.ok()) return ExplainMemlock(NameBackup(evicted, members));

  movement.WaitForRelease();
  timeline.Ended("free figures");
  if (deep) {
    // What still moves would wait in the driver until a resume.
    StopMoves(claimed->processes);
    GoDeep(members, *deep);
    timeline.Ended("deep");
  }
  to_.account.Changed();
  if (!order.for_turn) TakeOver(members);
  Outcomes outcomes;
  for (const Member& member : members) {
    outcomes.push_back(movement.OutcomeOf(member, ProcessState::kPaused, course.arrived_ns()));
  }
  Note(Way::kOut, outcomes);
  BeginBehind(order, members, course, outcomes);
  timeline.Ended("report");
  timeline.Log("pause");
  return outcomes;
}

void NodeState::MarkTurn(const std::vector<Member>& members, bool for_turn) {
  for (const Member& member : members) {
    if (member.was_out || member.process->View().for_turn == for_turn) continue;
    member.process->SetForTurn(for_turn);
    to_.events.Publish(Event::Kind::kState, *member.process);
  }
}

void NodeState::TakeOver(const std::vector<Member>& members) {
  for (const Member& member : members) {
    if (!member.process->View().OutForTurn()) continue;
    member.process->SetForTurn(false);
    to_.events.Publish(Event::Kind::kState, *member.process);
  }
}

absl::Status NodeState::Evict(std::vector<Member>& members, std::vector<Scratch::Use>& uses,
                              const PauseOrder& order, Course& course, Timeline& timeline) {
  HostBudget::Booking booking(to_.budget);
  Transition transition(members, to_.events, limits_, order.epoch, &course);
  // Before anything moves: host memory is booked and the disk preallocated by what the ledgers say.
  if (auto s = Provide(members, uses, order, booking); !s.ok()) return s;
  if (std::all_of(members.begin(), members.end(), [](const Member& m) { return m.already; })) {
    return absl::OkStatus();
  }
  timeline.Ended("plan");
  if (auto s = transition.Prepare(order.gate); !s.ok()) return s;
  timeline.Ended("prepare");
  // The application went on allocating until its gate closed; now the figures are exact.
  if (auto s = Provide(members, uses, order, booking); !s.ok()) {
    transition.Abort();
    return s;
  }
  timeline.Ended("plan");
  const absl::Status status = transition.Commit({order.policies, order.chunk_bytes, order.elision});
  timeline.Ended("commit");
  return status;
}

absl::StatusOr<std::vector<Grant>> NodeState::PlanHost(HostBudget::Booking& booking,
                                                       const Policies& policies,
                                                       const std::vector<Demand>& demands,
                                                       ProcessList asked) {
  auto grants = booking.Plan(policies, demands);
  bool spared = false;
  for (; LacksHostMemory(grants); grants = booking.Plan(policies, demands)) {
    if (!grants.ok() && !spared) {
      spared = LeaveAlone(MetadataOf(grants.status()), to_.registry, asked);
    }
    if (!ReclaimHostMemory(to_.registry, asked)) break;
  }
  return grants;
}

absl::Status NodeState::Provide(std::vector<Member>& members, std::vector<Scratch::Use>& uses,
                                const PauseOrder& order, HostBudget::Booking& booking) {
  const auto demands = DemandsOf(members, order.chunk_bytes);
  if (!demands.ok()) return demands.status();
  ProcessList asked;
  for (const Member& member : members) asked.push_back(member.process);
  const auto grants = PlanHost(booking, order.policies, *demands, std::move(asked));
  if (!grants.ok()) return grants.status();
  for (size_t i = 0; i < members.size(); ++i) {
    members[i].grant = (*grants)[i];
    if (members[i].grant.disk == 0 || members[i].already) continue;
    const Bytes bytes =
        members[i].disk_out + Following(*members[i].process) + members[i].grant.disk;
    if (auto s = to_.scratch.Reserve(members[i].process, order.scratch_base, bytes, uses[i],
                                     members[i].disk_out);
        !s.ok()) {
      return s;
    }
    members[i].scratch = uses[i].directory();
    members[i].disk = uses[i].setting();
  }
  return absl::OkStatus();
}

void NodeState::Settle(const std::vector<Member>& members, std::vector<Scratch::Use>& uses,
                       const absl::Status& moved) {
  for (size_t i = 0; i < uses.size(); ++i) {
    const ProcessView view = members[i].process->View();
    const bool as_before = view.state == ProcessState::kRunning ||
                           (members[i].was_out && view.state == ProcessState::kPaused &&
                            view.ledger && view.ledger->disk_backup_bytes == members[i].disk_out);
    if (!moved.ok() && as_before) {
      uses[i].GiveBack();
    } else {
      uses[i].Keep();  // also of one that stayed behind paused: its bytes are there
    }
  }
}

absl::StatusOr<Outcomes> NodeState::Resume(const Caller& caller, const ResumeOrder& order,
                                           Course& course) {
  if (auto s = Check(order); !s.ok()) return s;
  auto claimed = Claim(caller, order.selector, order.epoch, ResumedBy(order), course);
  if (IsEmpty(claimed.status(), order)) return Outcomes{};
  if (!claimed.ok()) return claimed.status();
  if (auto s = CheckParts(order, claimed->processes); !s.ok()) return s;
  std::vector<Member>& members = claimed->members;
  if (order.release_host) {
    // What runs may still hold a pool: its shim answers `already` and gives that back.
    for (Member& member : members) member.already = false;
  }
  // Who is back already is not to be kept from others for as long as the rest waits for room.
  ProcessList done;
  std::vector<Member> moving;
  for (const Member& member : members) {
    if (member.already) {
      done.push_back(member.process);
    } else {
      moving.push_back(member);
    }
  }
  claimed->claim.GiveBack(done);
  const Begun begun(to_.journal, OperationKind::kResume, moving, course.origin(),
                    {order.tags, order.gate});
  Movement movement(to_.gpus, claimed->processes);
  double waited_seconds = 0;
  Timeline timeline(course.arrived_ns());
  timeline.Ended("claim");
  if (auto s = Restore(members, order, course, &waited_seconds); !s.ok()) {
    return NameBackup(s, members);
  }
  timeline.Ended("restore");
  movement.Look();
  for (const Member& member : moving) member.process->ComesIn();
  TakeOver(moving);  // some tags may be out still
  Outcomes outcomes;
  for (const Member& member : members) {
    outcomes.push_back(movement.OutcomeOf(member, ProcessState::kRunning, course.arrived_ns()));
    outcomes.back().wait_seconds = waited_seconds;
  }
  Note(Way::kIn, outcomes);
  timeline.Ended("report");
  timeline.Log("resume");
  return outcomes;
}

absl::Status NodeState::Restore(std::vector<Member>& members, const ResumeOrder& order,
                                Course& course, double* waited_seconds) {
  ProcessList processes;
  for (const Member& member : members) {
    if (!member.already) processes.push_back(member.process);
  }
  for (const auto& process : processes) process->EndBehind();
  GpuAccount::Booking booking(
      to_.account, {[processes] { return ResidentOf(processes); },
                    [&members, &course] {
                      return course.unwanted() ||
                             std::any_of(members.begin(), members.end(), [](const Member& m) {
                               return !m.already && m.process->ended();
                             });
                    },
                    [&course](auto waits) { course.Waits(std::move(waits)); }, course.origin().id,
                    order.priority});
  Transition transition(members, to_.events, limits_, order.epoch, &course);
  DeepPause deep = DeepOf(members, DeepMark::State::kDeep);
  absl::Status status;
  const bool waits =
      order.wait_timeout_ns != 0 && CanEverFit(Lacking(members, order.tags), to_.gpus);
  for (const Deadline by = Deadline::InNs(waits ? order.wait_timeout_ns : 0);;) {
    // Who lives is not to wait for room for who has ended.
    for (Member& m : members) m.already |= m.process->ended();
    status = booking.Book(Lacking(members, order.tags), by);
    // Those that are back stay so; whoever waits for room does no longer.
    // Who has nobody to hear it leaves the queue, but goes on where it need not wait.
    if (course.cancelled() || (!status.ok() && course.unwanted())) status = course.Cancellation();
    if (status.ok()) status = deep.Up();
    if (!status.ok()) {
      status = Annotate(status, "", {{"paused_pids", Join(PausedPids(members), ", ")}});
    } else {
      status = transition.Resume({order.release_host, order.tags, order.gate});
    }
    // What the driver has free may lie in pieces, or somebody else was faster: again, while there
    // is time, those that are still paused.
    if (ReasonOf(status) != "GPU_MEMORY" || by.Passed() || course.unwanted()) break;
    booking.AwaitChange(by);
  }
  *waited_seconds = booking.waited_seconds();
  for (const Member& m : members) {
    if (status.ok() && m.process->ended()) {
      status = Fail(absl::StatusCode::kUnavailable, "PROCESS_ENDED",
                    Cat("process ", m.process->pid(), " has ended"),
                    {{"pid", std::to_string(m.process->pid())}});
    }
  }
  return ReasonOf(status) == "GPU_MEMORY"
             ? ExplainShortage(status, Lacking(members, order.tags), to_.gpus)
             : status;
}

absl::Status NodeState::BringBack(const ProcessList& processes, const PartsBack& parts) {
  std::vector<Member> members;
  for (const auto& process : processes) {
    members.emplace_back().process = process;
  }
  ResumeOrder order;
  order.tags = parts.tags;
  order.gate = parts.gate;
  order.wait_timeout_ns = 2'000'000'000;  // somebody else's pause may be about to make room
  order.priority = INT32_MAX;             // it had its turn before
  Course course;
  double waited_seconds;
  return Restore(members, order, course, &waited_seconds);
}

}  // namespace parkade::daemon
