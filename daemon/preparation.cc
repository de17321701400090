// Prepare, then LetThrough for as long as somebody waits for a peer.
#include "daemon/preparation.h"

#include <algorithm>

#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// What drains on its own mostly does within this; longer, and it may be waiting for a peer.
constexpr uint64_t kGraceNs = 20'000'000;
// The last launch of a collective ends it on all ranks at once, but their answers come one after
// the other. One who is let through before the last of them is in begins the next collective.
constexpr uint64_t kSettleNs = 1'000'000;
constexpr uint64_t kMostSettleNs = 16'000'000;
// A thread between two launches comes to the gate within this, if it comes at all.
constexpr uint64_t kArrivalNs = 20'000'000;
// Between two calls let through while a rank drains. Also a share of the time since the last of
// them did any good: what waits for nobody but has much to do would get more than it does away
// with.
constexpr uint64_t kNudgeNs = 2'000'000;
constexpr uint64_t kNudgeShare = 16;

std::optional<int32_t> RankOf(const Member& member) {
  return member.process->View().introduction.rank;
}

std::string NameOf(const Member& member) {
  const auto rank = RankOf(member);
  const std::string process = Cat("process ", member.process->pid());
  return rank ? Cat("rank ", *rank, " (", process, ")") : process;
}

bool IsBusy(const Answer& answer) { return ReasonOf(answer.status) == "BUSY"; }

}  // namespace

Preparation::Preparation(std::span<Member> members, const GateOrder& gate, uint64_t epoch,
                         uint64_t answer_ms, const Course* course)
    : members_(members),
      gate_(gate),
      epoch_(epoch),
      course_(course),
      drain_until_ns_(MonotonicNs() + gate.drain_timeout_ns),
      over_ns_(drain_until_ns_ + answer_ms * 1'000'000),
      round_(std::make_shared<Round>(members.size())),
      turns_(members.size()),
      settle_ns_(kSettleNs) {}

absl::Status Preparation::Run() {
  Close();
  for (uint64_t seen = 0;;) {
    Answers answers = round_->answers();
    const uint64_t now_ns = MonotonicNs();
    if (!Take(answers, now_ns)) {
      // Those whose time is up together answer one after the other; all of them shall be named.
      round_->WaitAll(Deadline::InNs(kGraceNs));
      answers = round_->answers();
      Take(answers, now_ns);
      return Refusal(answers);
    }
    const bool all =
        std::none_of(turns_.begin(), turns_.end(), [](const Turn& t) { return t.open; });
    if (all) return absl::OkStatus();
    if (now_ns >= over_ns_) return Refusal(answers);
    if (course_ != nullptr && course_->cancelled()) return course_->Cancellation();
    const uint64_t look_ns =
        std::min({LetThrough(now_ns), over_ns_, now_ns + Course::kLookMs * 1'000'000});
    seen = round_->WaitForMore(seen, Deadline::InNs(look_ns - now_ns));
  }
}

void Preparation::Close() {
  const uint64_t now_ns = MonotonicNs();
  progress_ns_ = now_ns;
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& m = members_[i];
    if (m.already) continue;
    turns_[i] = {.open = true, .overdue_ns = now_ns + kGraceNs};
    auto prepare = wire::Make<wire::Prepare>();
    prepare.drain_timeout_ns = gate_.drain_timeout_ns;
    prepare.epoch = epoch_;
    prepare.gate_mode = uint32_t(gate_.mode);
    prepare.gated_work = uint32_t(gate_.work);
    prepare.gated_allocations = uint32_t(gate_.allocations);
    prepare.on_exported = uint32_t(gate_.exported);
    m.process->Send(prepare, round_, i);
  }
}

bool Preparation::Take(const Answers& answers, uint64_t now_ns) {
  bool good = true;
  bool late = false;
  for (size_t i = 0; i < members_.size(); ++i) {
    Turn& turn = turns_[i];
    if (!turn.open || !answers[i]) continue;
    if (!answers[i]->status.ok()) {
      good = false;
      continue;
    }
    turn.open = false;
    late |= turn.overdue_ns <= now_ns;
    quiet_ns_ = now_ns;
    Member& m = members_[i];
    const wire::Reply& reply = *answers[i]->reply;
    if (!turn.drained) {
      m.prepared = reply;
      m.already = reply.already != 0;
    } else {
      wire::Stats& sum = m.prepared.stats;
      turn.idle = reply.stats.let_through == 0;
      sum.let_through += reply.stats.let_through;
      sum.drain_ns += reply.stats.drain_ns;
      // What was let through may have been an allocation.
      sum.pausable_bytes = std::max(sum.pausable_bytes, reply.stats.pausable_bytes);
    }
    if (!turn.idle) progress_ns_ = now_ns;
    turn.drained = true;
  }
  // Somebody was let through while the answer that was waited for was on its way: this machine
  // needs more time.
  const bool too_soon = late && std::any_of(turns_.begin(), turns_.end(),
                                            [](const Turn& t) { return t.open && t.drained; });
  if (too_soon) settle_ns_ = std::min(settle_ns_ * 2, kMostSettleNs);
  return good;
}

uint32_t Preparation::NextCalls() {
  std::vector<bool> waiting;
  for (const Turn& turn : turns_) waiting.push_back(turn.open);
  if (calls_ == 0) {
    calls_ = 1;
  } else if (waiting == waited_) {
    calls_ = std::min(calls_ * 2, wire::kMostLetThrough);
  } else {
    // Who was waited for is ahead now, and the others have as far to go at most.
    calls_ = std::max(calls_ / 2, 1u);
  }
  waited_ = std::move(waiting);
  return calls_;
}

uint64_t Preparation::LetThrough(uint64_t now_ns) {
  // Past the drain timeout no peer's call can help any more: the shims answer for themselves.
  if (now_ns >= drain_until_ns_) return over_ns_;
  uint64_t next_ns = drain_until_ns_;
  bool overdue = false;
  for (const Turn& turn : turns_) {
    if (!turn.open) continue;
    if (turn.overdue_ns <= now_ns) {
      overdue = true;
    } else {
      next_ns = std::min(next_ns, turn.overdue_ns);
    }
  }
  if (!overdue) return next_ns;
  if (now_ns < quiet_ns_ + settle_ns_) return std::min(next_ns, quiet_ns_ + settle_ns_);
  if (InCircle(now_ns)) {
    Nudge(now_ns);
    for (const Turn& turn : turns_) {
      if (turn.open) next_ns = std::min(next_ns, turn.overdue_ns);
    }
  }
  uint32_t calls = 0;
  for (size_t i = 0; i < members_.size(); ++i) {
    Turn& turn = turns_[i];
    if (turn.open || members_[i].already) continue;
    if (calls == 0) calls = NextCalls();  // before the first of them is open
    // Beyond the time in which it may find no call: else two that have nothing left to launch
    // would send each other on for ever.
    turn.open = true;
    turn.overdue_ns = now_ns + kArrivalNs + kGraceNs;
    next_ns = std::min(next_ns, turn.overdue_ns);
    auto let_through = wire::Make<wire::LetThrough>();
    let_through.drain_timeout_ns = drain_until_ns_ - now_ns;
    let_through.arrival_ns = kArrivalNs;
    let_through.calls = calls;
    round_->Reopen(i);
    members_[i].process->Send(let_through, round_, i);
  }
  return next_ns;
}

bool Preparation::InCircle(uint64_t now_ns) const {
  if (members_.size() == 1) return false;
  for (size_t i = 0; i < members_.size(); ++i) {
    const Turn& turn = turns_[i];
    const bool waits = turn.open && turn.overdue_ns <= now_ns;
    if (!members_[i].already && !waits && !turn.idle) return false;
  }
  return true;
}

void Preparation::Nudge(uint64_t now_ns) {
  const auto unheard = std::make_shared<Round>(members_.size());  // the answers say nothing
  for (size_t i = 0; i < members_.size(); ++i) {
    Turn& turn = turns_[i];
    if (!turn.open || turn.overdue_ns > now_ns) continue;
    turn.overdue_ns = now_ns + std::max(kNudgeNs, (now_ns - progress_ns_) / kNudgeShare);
    auto let_through = wire::Make<wire::LetThrough>();
    let_through.drain_timeout_ns = drain_until_ns_ - now_ns;
    let_through.calls = 1;
    members_[i].process->Send(let_through, unheard, i);
  }
}

absl::Status Preparation::Refusal(const Answers& answers) const {
  const size_t nobody = members_.size();
  size_t first = nobody;  // to tell of: one that never drained says more than one that had
  size_t silent = nobody;
  std::vector<std::string> undrained;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (!turns_[i].open) continue;
    if (answers[i] && !IsBusy(*answers[i])) return answers[i]->status;
    undrained.push_back(NameOf(members_[i]));
    if (!answers[i]) {
      silent = std::min(silent, i);
    } else if (first == nobody || (turns_[first].drained && !turns_[i].drained)) {
      first = i;
    }
  }
  if (first == nobody) {
    const int pid = members_[silent].process->pid();
    return Fail(absl::StatusCode::kUnavailable, "SHIM_STALLED",
                Cat("process ", pid, " did not answer in time"), {{"pid", std::to_string(pid)}});
  }
  Metadata metadata;
  if (const auto rank = RankOf(members_[first])) metadata["rank"] = std::to_string(*rank);
  if (members_.size() == 1) return Annotate(answers[first]->status, "", metadata);
  return Annotate(answers[first]->status, Cat("not drained: ", Join(undrained, ", "), "; "),
                  metadata);
}

}  // namespace parkade::daemon
