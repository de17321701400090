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
  commit.disk_bytes = member.scratch != nullptr ? member.scratch->AllBytes() : 0;
  commit.chunk_bytes = member.grant.stage != 0 ? member.grant.stage : eviction.chunk_bytes;
  commit.block_bytes = member.disk.block;
  commit.depth = member.disk.depth;
  commit.registers_memory = member.disk.registers_memory ? 1 : 0;
  const wire::Policy own = member.process->View().introduction.default_policy;
  commit.policy = uint32_t(eviction.policies.ForRest(own));
  for (const auto& [tag, policy] : eviction.policies.Named(own)) {
    wire::TagPolicy& entry = commit.tags[commit.tag_count++];
    CopyText(entry.tag, tag);
    entry.policy = uint32_t(policy);
  }
  commit.elision = eviction.elision ? uint32_t(*eviction.elision) : 0;
  if (member.scratch != nullptr) {
    commit.file_count = uint32_t(member.scratch->AllData().size());
    commit.has_lock = member.scratch->lock() >= 0 ? 1 : 0;
  }
  // Also when this pause has no use for it: a shim knows only the directory named last, and the
  // next daemon learns of it from the shim.
  if (const auto held = member.process->scratch()) CopyText(commit.scratch, held->path());
  return commit;
}

bool StaysOut(const Process& process) { return !process.ended() && IsOut(process.State()); }

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
  const auto round = StartCommit(eviction);
  WaitWhileMoving(*round, limits_.stall_ms, Until::kAllOrFailure);
  absl::Status ended = EndCommit(*round);
  return ended.ok() ? ended : Undo(ended);
}

std::shared_ptr<Round> Transition::StartCommit(const Eviction& eviction) {
  if (course_ != nullptr) course_->Moves();
  return Send([](const Member& m) { return !m.already; },
              [&](Member& m, const auto& r, size_t slot) {
                const auto commit = CommitFor(m, eviction);
                m.commit_sent = true;
                Tell(m, ProcessState::kEvicting);
                if (m.scratch == nullptr) {
                  m.process->Send(commit, r, slot);
                } else {
                  std::vector<int> fds = m.scratch->AllData();
                  if (commit.has_lock != 0) fds.insert(fds.begin(), m.scratch->lock());
                  m.process->Send(commit, r, slot, fds);
                }
              });
}

absl::Status Transition::EndCommit(Round& round) {
  const Answers answers = round.answers();
  if (auto failed = FailureOf(answers); !failed.ok()) return failed;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]->reply) continue;
    members_[i].finished = *answers[i]->reply;
    Tell(members_[i], ProcessState(members_[i].finished.state));
  }
  return absl::OkStatus();
}

absl::Status Transition::FailureOf(const Answers& answers) const {
  auto failed = FirstFailure(answers, "stopped moving bytes");
  // No answer in time: that is what the wish to cancel has made of the wait.
  const bool is_wish = cancelled() && ReasonOf(failed) == "SHIM_STALLED";
  return is_wish ? course_->Cancellation() : failed;
}

std::shared_ptr<Round> Transition::StartArrival() {
  if (course_ != nullptr) course_->Moves();
  return Send([](const Member& m) { return !m.already; },
              [&](Member& m, const auto& r, size_t slot) {
                auto resume = wire::Make<wire::Resume>();
                resume.in_turn = 1;
                resume.epoch = epoch_;
                Tell(m, ProcessState::kRestoring);
                m.process->Send(resume, r, slot);
              });
}

absl::Status Transition::EndArrival(Round& round) {
  const Answers answers = round.answers();
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i] || !answers[i]->reply) continue;
    members_[i].prepared = *answers[i]->reply;
    if (members_[i].prepared.code == 0 && members_[i].prepared.already != 0) {
      members_[i].already = true;
    }
  }
  return FailureOf(answers);
}

Transition::Answers Transition::AbortAll() {
  const auto aborts = Send([](const Member& m) { return !m.already; },
                           [&](Member& m, const auto& r, size_t slot) {
                             m.process->Send(wire::Make<wire::Abort>(), r, slot);
                           });
  WaitWhileMoving(*aborts, limits_.undo_ms, Until::kAll);
  return aborts->answers();
}

absl::Status Transition::SendBack(absl::Status why) {
  Answers answers = AbortAll();
  for (size_t i = 0; i < answers.size(); ++i) {
    // One that refuses still has the HBM that the others are to have.
    const bool refuses = answers[i] && !answers[i]->status.ok() && !members_[i].process->ended();
    if (refuses) answers[i].reset();
  }
  why = DropUnanswered(answers, answers, std::move(why));
  for (const Member& m : members_) {
    if (!m.already) events_.Publish(Event::Kind::kState, *m.process);
  }
  return why;
}

absl::Status Transition::DropUnanswered(const Answers& first, const Answers& second,
                                        absl::Status why) {
  std::vector<int> dropped;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].already || (first[i] && second[i])) continue;
    // One that does not answer is let go: without a daemon a shim undoes by itself.
    members_[i].process->Drop();
    dropped.push_back(members_[i].process->pid());
  }
  if (why.ok() || dropped.empty()) return why;
  const std::string pids = Join(dropped, ", ");
  return Annotate(why,
                  Cat("(did not answer the undo and are left to undo by themselves: ", pids, ") "),
                  {{"unanswered_pids", pids}});
}

void Transition::WaitWhileMoving(Round& round, uint64_t stall_ms, Until until) {
  const bool may_end_early = until == Until::kAllOrFailure;
  Progress seen;
  Deadline stalled = Deadline::InMs(stall_ms);
  for (;;) {
    // The answer itself wakes at once; these looks are for the ledgers and for who cancels.
    const Deadline look = Deadline::InMs(std::min(Course::kLookMs, stall_ms));
    if (may_end_early ? round.WaitAllOrFailure(look) : round.WaitAll(look)) return;
    if (may_end_early && cancelled()) return;
    Progress now = ProgressOfAll();
    if (now != seen) stalled = Deadline::InMs(stall_ms);
    seen = std::move(now);
    if (stalled.Passed()) return;
  }
}

Transition::Progress Transition::ProgressOfAll() const {
  Progress progress;
  for (const Member& m : members_) {
    const ProcessView view = m.process->View();
    progress.emplace_back(view.ledger ? view.ledger->moved_bytes : 0, view.state);
  }
  return progress;
}

void Transition::Abort() {
  // Nothing has failed, so there is nothing to add to.
  [[maybe_unused]] const absl::Status undone = Undo(absl::OkStatus());
}

absl::Status Transition::Undo(absl::Status why) {
  // First open the gates that are closed and stop what moves; then bring back whoever was already
  // through.
  const Answers aborted = AbortAll();
  const auto is_through = [&](const Member& m) {
    const auto& answer = aborted[size_t(&m - members_.data())];
    // Without a Commit of this transition a shim would undo that of the last one, which stays.
    if (m.already || !m.commit_sent || !answer || !answer->reply) return false;
    return IsOut(ProcessState(answer->reply->state));
  };
  const auto resumes = Send(is_through, [&](Member& m, const auto& r, size_t slot) {
    auto resume = wire::Make<wire::Resume>();
    resume.undoes_pause = m.was_out ? 1 : 0;
    if (!m.was_out) Tell(m, ProcessState::kRestoring);
    m.process->Send(resume, r, slot);
  });
  WaitWhileMoving(*resumes, limits_.stall_ms, Until::kAll);
  const Answers resumed = resumes->answers();

  why = DropUnanswered(aborted, resumed, std::move(why));
  std::vector<int> paused;
  for (const Member& m : members_) {
    if (m.already) continue;
    // Its ledger says where it is, also when its answer was lost on the way. Who was out before is
    // further out only when it could not be undone.
    const auto& undone = resumed[size_t(&m - members_.data())];
    const bool undoes = !m.was_out || (undone && !undone->status.ok()) ||
                        m.process->State() == ProcessState::kPartlyMoved;
    if (undoes && StaysOut(*m.process)) paused.push_back(m.process->pid());
    events_.Publish(Event::Kind::kState, *m.process);
  }
  if (why.ok()) return why;
  if (!paused.empty()) {
    const std::string pids = Join(paused, ", ");
    why = Annotate(why, Cat("(still paused, resume when there is room: ", pids, ") "),
                   {{"paused_pids", pids}});
  }
  return why;
}

absl::Status Transition::Resume(const Return& what) {
  if (course_ != nullptr) course_->Moves();
  const auto is_back = [](const Member& m) { return m.already || m.is_back; };
  const auto round = Send([&](const Member& m) { return !is_back(m); },
                          [&](Member& m, const auto& r, size_t slot) {
                            auto resume = wire::Make<wire::Resume>();
                            resume.release_host = what.release_host ? 1 : 0;
                            resume.epoch = epoch_;
                            resume.gate_mode = uint32_t(what.gate);
                            for (const std::string& tag : what.tags) {
                              CopyText(resume.tags[resume.tag_count++], tag);
                            }
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
    m.is_back = answers[i] && answers[i]->status.ok();
    if (!is_back(m) && StaysOut(*m.process)) paused.push_back(m.process->pid());
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
