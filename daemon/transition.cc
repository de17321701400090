// Two phases out, one phase back, and the undo of each.
#include "daemon/transition.h"

#include <algorithm>
#include <utility>

#include "common/text.h"
#include "daemon/preparation.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

using wire::ProcessState;

wire::Commit CommitFor(const Member& member, const Transition::Eviction& eviction) {
  auto commit = wire::Make<wire::Commit>();
  commit.host_bytes = member.grant.host;
  commit.disk_bytes = member.scratch != nullptr ? member.scratch->bytes() : 0;
  commit.chunk_bytes = member.grant.stage != 0 ? member.grant.stage : eviction.chunk_bytes;
  const wire::Policy own = member.process->View().introduction.default_policy;
  commit.policy = uint32_t(eviction.policies.ForRest(own));
  for (const auto& [tag, policy] : eviction.policies.Named(own)) {
    wire::TagPolicy& entry = commit.tags[commit.tag_count++];
    CopyText(entry.tag, tag);
    entry.policy = uint32_t(policy);
  }
  if (member.scratch != nullptr) {
    commit.file_count = 1;
    commit.has_lock = member.scratch->lock() >= 0 ? 1 : 0;
  }
  // Also when this pause has no use for it: a shim knows only the directory named last, and the
  // next daemon learns of it from the shim.
  if (const auto held = member.process->scratch()) CopyText(commit.scratch, held->path());
  return commit;
}

bool StaysOut(const Process& process) { return !process.ended() && IsOut(process.State()); }

// What a process's progress is measured by.
std::pair<uint64_t, ProcessState> Progress(const Process& process) {
  const ProcessView view = process.View();
  return {view.ledger ? view.ledger->moved_bytes : 0, view.state};
}

}  // namespace

std::shared_ptr<Round> Transition::Send(
    const std::function<bool(const Member&)>& wanted,
    const std::function<void(Member&, const std::shared_ptr<Round>&, size_t slot)>& send) {
  auto round = std::make_shared<Round>(members_.size());
  for (size_t i = 0; i < members_.size(); ++i) {
    if (wanted(members_[i])) {
      send(members_[i], round, i);
    } else {
      round->Give(i, {absl::OkStatus(), std::nullopt});
    }
  }
  return round;
}

void Transition::Tell(const Member& member, ProcessState state) {
  events_.Publish(Event::Kind::kState, *member.process, state);
}

absl::Status Transition::FirstFailure(const Answers& answers, std::string_view unanswered) const {
  for (const auto& answer : answers) {
    if (answer && !answer->status.ok()) return answer->status;
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i]) continue;
    const int pid = members_[i].process->pid();
    return Fail(absl::StatusCode::kUnavailable, "SHIM_STALLED",
                Cat("process ", pid, " ", unanswered), {{"pid", std::to_string(pid)}});
  }
  return absl::OkStatus();
}

absl::Status Transition::Prepare(const GateOrder& gate) {
  std::vector<const Member*> moving;
  for (const Member& m : members_) {
    if (!m.already) moving.push_back(&m);
  }
  for (const Member* m : moving) Tell(*m, ProcessState::kPreparing);
  Preparation preparation(members_, gate, epoch_, limits_.answer_ms, course_);
  if (auto failed = preparation.Run(); !failed.ok()) return Undo(failed);
  for (const Member* m : moving) Tell(*m, ProcessState(m->prepared.state));
  return absl::OkStatus();
}

absl::Status Transition::Commit(const Eviction& eviction) {
  if (cancelled()) return Undo(course_->Cancellation());
  if (course_ != nullptr) course_->Moves();
  const auto round =
      Send([](const Member& m) { return !m.already; },
           [&](Member& m, const auto& r, size_t slot) {
             const auto commit = CommitFor(m, eviction);
             Tell(m, ProcessState::kEvicting);
             if (m.scratch == nullptr) {
               m.process->Send(commit, r, slot);
             } else {
               const int fds[] = {m.scratch->lock(), m.scratch->data()};
               m.process->Send(commit, r, slot, std::span(fds).subspan(1 - commit.has_lock));
             }
           });
  WaitWhileMoving(*round, limits_.stall_ms, Until::kAllOrFailure);
  const Answers answers = round->answers();
  auto failed = FirstFailure(answers, "stopped moving bytes");
  if (!failed.ok()) {
    // No answer in time: that is what the wish to cancel has made of the wait.
    if (cancelled() && ReasonOf(failed) == "SHIM_STALLED") failed = course_->Cancellation();
    return Undo(failed);
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]->reply) continue;
    members_[i].finished = *answers[i]->reply;
    Tell(members_[i], ProcessState(members_[i].finished.state));
  }
  return absl::OkStatus();
}

void Transition::WaitWhileMoving(Round& round, uint64_t stall_ms, Until until) {
  const bool may_end_early = until == Until::kAllOrFailure;
  std::vector<std::pair<uint64_t, ProcessState>> seen(members_.size());
  Deadline stalled = Deadline::InMs(stall_ms);
  for (;;) {
    // The answer itself wakes at once; these looks are for the ledgers and for who cancels.
    const Deadline look = Deadline::InMs(std::min(Course::kLookMs, stall_ms));
    if (may_end_early ? round.WaitAllOrFailure(look) : round.WaitAll(look)) return;
    if (may_end_early && cancelled()) return;
    for (size_t i = 0; i < members_.size(); ++i) {
      const auto now = Progress(*members_[i].process);
      if (now != seen[i]) stalled = Deadline::InMs(stall_ms);
      seen[i] = now;
    }
    if (stalled.Passed()) return;
  }
}

void Transition::Abort() {
  // Nothing has failed, so there is nothing to add to.
  [[maybe_unused]] const absl::Status undone = Undo(absl::OkStatus());
}

absl::Status Transition::Undo(absl::Status why) {
  // First open the gates that are closed and stop what moves; then bring back whoever was already
  // through.
  const auto aborts = Send([](const Member& m) { return !m.already; },
                           [&](Member& m, const auto& r, size_t slot) {
                             m.process->Send(wire::Make<wire::Abort>(), r, slot);
                           });
  WaitWhileMoving(*aborts, limits_.undo_ms, Until::kAll);
  const Answers aborted = aborts->answers();
  const auto is_out = [&](const Member& m) {
    const auto& answer = aborted[size_t(&m - members_.data())];
    if (!answer || !answer->reply) return false;
    return IsOut(ProcessState(answer->reply->state));
  };
  const auto resumes = Send([&](const Member& m) { return !m.already && !m.was_out && is_out(m); },
                            [&](Member& m, const auto& r, size_t slot) {
                              Tell(m, ProcessState::kRestoring);
                              m.process->Send(wire::Make<wire::Resume>(), r, slot);
                            });
  WaitWhileMoving(*resumes, limits_.stall_ms, Until::kAll);
  const Answers resumed = resumes->answers();

  std::vector<int> paused, dropped;
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& m = members_[i];
    if (m.already) continue;
    // One that does not answer is let go: without a daemon a shim undoes by itself.
    if (!aborted[i] || !resumed[i]) {
      m.process->Drop();
      dropped.push_back(m.process->pid());
    }
    // Its ledger says where it is, also when its answer was lost on the way.
    if (!m.was_out && StaysOut(*m.process)) paused.push_back(m.process->pid());
    events_.Publish(Event::Kind::kState, *m.process);
  }
  if (why.ok()) return why;
  if (!dropped.empty()) {
    const std::string pids = Join(dropped, ", ");
    why = Annotate(why,
                   Cat("(did not answer the undo and are left to undo by themselves: ", pids, ") "),
                   {{"unanswered_pids", pids}});
  }
  if (!paused.empty()) {
    const std::string pids = Join(paused, ", ");
    why = Annotate(why, Cat("(still paused, resume when there is room: ", pids, ") "),
                   {{"paused_pids", pids}});
  }
  return why;
}

absl::Status Transition::Resume(bool release_host) {
  if (course_ != nullptr) course_->Moves();
  const auto is_back = [](const Member& m) {
    return m.already || ProcessState(m.finished.state) == ProcessState::kRunning;
  };
  const auto round = Send([&](const Member& m) { return !is_back(m); },
                          [&](Member& m, const auto& r, size_t slot) {
                            auto resume = wire::Make<wire::Resume>();
                            resume.release_host = release_host ? 1 : 0;
                            resume.epoch = epoch_;
                            Tell(m, ProcessState::kRestoring);
                            m.process->Send(resume, r, slot);
                          });
  WaitWhileMoving(*round, limits_.stall_ms, Until::kAll);
  const Answers answers = round->answers();
  std::vector<int> paused;
  for (size_t i = 0; i < answers.size(); ++i) {
    Member& m = members_[i];
    if (is_back(m)) continue;
    if (answers[i] && answers[i]->reply) m.finished = *answers[i]->reply;
    if (StaysOut(*m.process)) paused.push_back(m.process->pid());
    events_.Publish(Event::Kind::kState, *m.process);
  }
  absl::Status failed = FirstFailure(answers, "stopped moving bytes");
  if (failed.ok() || members_.size() == 1 || paused.empty()) return failed;
  const std::string pids = Join(paused, ", ");
  return Annotate(failed,
                  Cat(paused.size(), " of ", members_.size(), " stay paused (", pids, "): "),
                  {{"paused_pids", pids}});
}

}  // namespace parkade::daemon
