// Write-behind: what pauses have left in host memory goes on to disk, process by process.
#include <algorithm>
#include <deque>
#include <utility>

#include "daemon/begun.h"
#include "daemon/errand.h"
#include "daemon/explain.h"
#include "daemon/node_state.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

using wire::ProcessState;

constexpr uint64_t kStopMs = 5000;

// One of the processes, and what has become of it so far.
struct Party {
  std::shared_ptr<Process> process;
  uint64_t number;  // of its write-behind
  Outcome outcome;
  absl::Status failed;
};

enum class Now { kDue, kBusy, kAway, kOver };

// Whether its bytes can be moved now: nothing else is under way there, and nobody wants them back.
Now Look(const Party& party) {
  const ProcessView view = party.process->View();
  const bool wanted = party.process->behind() == party.number && !party.process->ended();
  if (!wanted || view.state == ProcessState::kRunning || view.state == ProcessState::kFailed) {
    return Now::kOver;
  }
  if (!view.connected) return Now::kAway;
  return IsOut(view.state) && view.ledger && view.ledger->op_id == 0 ? Now::kDue : Now::kBusy;
}

absl::Status NotMoved(const Party& party, Now now) {
  const int pid = party.outcome.pid;
  const Metadata metadata{{"pid", std::to_string(pid)}};
  if (now == Now::kAway) {
    return Fail(absl::StatusCode::kUnavailable, "SHIM_DISCONNECTED",
                Cat("process ", pid, " is not connected now"), metadata);
  }
  return Fail(absl::StatusCode::kCancelled, "CANCELLED",
              Cat("the bytes of process ", pid, " were wanted back before all were on disk"),
              metadata);
}

void Add(const Outcome& step, Outcome& to) {
  const Bytes disk = to.stats.disk_bytes, elided = to.stats.elided_bytes;
  const uint64_t move_ns = to.stats.move_ns;
  to.state = step.state;
  to.stats = step.stats;
  to.stats.disk_bytes += disk;
  to.stats.elided_bytes += elided;
  to.stats.move_ns += move_ns;
  to.wrong_blocks = step.wrong_blocks;
}

}  // namespace

void NodeState::BeginBehind(const PauseOrder& order, const std::vector<Member>& members,
                            const Course& course, Outcomes& outcomes) {
  if (!order.policies.write_behind || !order.begin_behind) return;
  BehindOrder behind;
  behind.release_host = order.release_host;
  for (const Member& member : members) {
    const ProcessView view = member.process->View();
    if (member.already || !view.ledger || view.ledger->host_backup_bytes == 0) continue;
    behind.parties.push_back({member.process, member.process->BeginBehind()});
  }
  if (behind.parties.empty()) return;
  const std::string id = order.begin_behind(course.origin().caller, behind);
  for (Outcome& outcome : outcomes) {
    for (const auto& party : behind.parties) {
      if (party.process->pid() == outcome.pid) outcome.write_behind = id;
    }
  }
}

void NodeState::EndBehind(const ProcessList& processes) {
  ProcessList moving;
  for (const auto& process : processes) {
    if (process->behind() != 0) moving.push_back(process);
  }
  StopMoves(moving);
}

void NodeState::StopMoves(const ProcessList& processes) {
  for (const auto& process : processes) process->EndBehind();
  Errand::Stop(processes, Deadline::InMs(kStopMs));
}

absl::StatusOr<Outcomes> NodeState::WriteBehind(const BehindOrder& order, Course& course,
                                                const std::function<void()>& noted) {
  ProcessList processes;
  std::vector<Member> members;
  for (const auto& party : order.parties) {
    processes.push_back(party.process);
    members.emplace_back().process = party.process;
  }
  const Begun begun(to_.journal, OperationKind::kWriteBehind, members, course.origin());
  noted();
  std::deque<Party> left;
  for (const auto& [process, number] : order.parties) {
    Party& party = left.emplace_back(Party{process, number, {}, {}});
    party.outcome.pid = process->pid();
    party.outcome.state = process->State();
  }
  AwaitReturn(processes, course).IgnoreError();  // a wish to cancel shows below
  course.Moves();
  const auto watcher = to_.events.Watch();
  std::vector<Party> done;
  size_t busy = 0;  // so many one after the other could not be moved
  while (!left.empty() && !course.cancelled()) {
    Party party = std::move(left.front());
    left.pop_front();
    const Now now = Look(party);
    if (now == Now::kOver || now == Now::kAway) {
      party.failed = NotMoved(party, now);
      done.push_back(std::move(party));
      continue;
    }
    if (now == Now::kDue) {
      const absl::Status moved = MoveOn(party.process, order.release_host, course, party.outcome);
      const bool again = !course.cancelled() && (moved.code() == absl::StatusCode::kCancelled ||
                                                 ReasonOf(moved) == "NOT_PAUSED");
      if (!again) {
        party.failed = moved;
        done.push_back(std::move(party));
        busy = 0;
        continue;
      }
    }
    left.push_back(std::move(party));
    if (++busy < left.size()) continue;
    for (const Deadline by = Deadline::InMs(Course::kLookMs); !by.Passed();) watcher->Next(by);
    watcher->TakeLost();
    busy = 0;
  }
  Outcomes outcomes;
  absl::Status failed = course.cancelled() ? course.Cancellation() : absl::OkStatus();
  for (Party& party : left) done.push_back(std::move(party));
  for (Party& party : done) {
    if (party.process->behind() == party.number) party.process->EndBehind();
    if (failed.ok()) failed = party.failed;
    outcomes.push_back(std::move(party.outcome));
    outcomes.back().total_seconds = double(MonotonicNs() - course.arrived_ns()) / 1e9;
  }
  if (failed.ok()) return outcomes;
  course.Report(outcomes);
  return Explain(failed, processes, course);
}

absl::Status NodeState::MoveOn(const std::shared_ptr<Process>& process, bool release_host,
                               Course& course, Outcome& outcome) {
  const ProcessList one{process};
  Errand errand(one, course, limits_.stall_ms, [&](size_t i, const auto& round) {
    auto shift = wire::Make<wire::Shift>();
    shift.to = uint32_t(wire::Place::kDisk);
    shift.release_host = release_host ? 1 : 0;
    process->Send(shift, round, i);  // where others are at work it is cancelled at once
  });
  const absl::Status moved = errand.Run();
  Add(errand.outcomes().front(), outcome);
  return moved;
}

}  // namespace parkade::daemon
