// Transition: the messages of one pause or resume over several processes at once.
//
// Knows no budgets and no policies' meaning; node_state plans, this carries out, and undoes.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/deadline.h"
#include "daemon/course.h"
#include "daemon/events.h"
#include "daemon/member.h"
#include "daemon/orders.h"
#include "daemon/planner.h"

namespace parkade::daemon {

class Transition {
 public:
  struct Limits {
    uint64_t answer_ms = 5000;   // beyond the time that a message allows the shim itself
    uint64_t stall_ms = 60'000;  // no byte moved and no answer for so long: it hangs
    uint64_t undo_ms = 10'000;   // the same for an Abort
  };

  // All outlive it. The members are claimed for as long as it lives. `epoch` is the caller's.
  // `course` can be cancelled until all have evicted, which then ends as a failure; null: it
  // cannot.
  Transition(std::span<Member> members, Events& events, Limits limits, uint64_t epoch = 0,
             Course* course = nullptr)
      : members_(members), events_(events), limits_(limits), epoch_(epoch), course_(course) {}

  // Closes all gates and drains, all at once, with calls let through where ranks wait for each
  // other. On failure every gate is as it was and nothing has changed. Fills `prepared`; members
  // that turn out to be paused become `already`.
  absl::Status Prepare(const GateOrder& gate);

  struct Eviction {
    Policies policies;
    Bytes chunk_bytes;
    std::optional<wire::Elision> elision = {};
  };
  // Evicts in all of them at once. On failure all of them are as they were, running or paused in
  // part, but for those that the message then names. Fills `finished`.
  absl::Status Commit(const Eviction& eviction);

  // The same in two steps, for a handoff. End is for when WaitAllOrFailure of the round has ended,
  // and undoes nothing: Undo does that.
  std::shared_ptr<Round> StartCommit(const Eviction& eviction);
  absl::Status EndCommit(Round& round);
  // A resume in turn: HBM is taken as the caller sends Room. End fills `prepared`. After it
  // SendBack, or Resume, which opens the gates.
  std::shared_ptr<Round> StartArrival();
  absl::Status EndArrival(Round& round);
  // What came in, or is about to, gives its HBM back. On a failure `why` says who did not answer.
  absl::Status SendBack(absl::Status why);
  // After a failure: brings every member that ran back to running, and takes back what has moved of
  // those that were out in part. Adds what stays behind, and who has not answered and is left to
  // itself, to `why`.
  absl::Status Undo(absl::Status why);

  // What moves is told by: bytes moved and state of each member.
  using Progress = std::vector<std::pair<uint64_t, wire::ProcessState>>;
  Progress ProgressOfAll() const;

  // After Prepare: opens all gates.
  void Abort();

  // What comes back.
  struct Return {
    bool release_host = false;
    std::vector<std::string> tags = {};           // in this order; empty: all that is out
    wire::GateMode gate = wire::GateMode::kOpen;  // with tags, while something stays out
  };
  // Brings it back in all of them, at once. On failure some may have it and the others stay paused
  // with their backups; the message names these. Fills `finished`. Called again, it tries those
  // again.
  absl::Status Resume(const Return& what);

 private:
  using Answers = std::vector<std::optional<Answer>>;

  // Sends to the members that `wanted` picks; the others count as answered.
  std::shared_ptr<Round> Send(
      const std::function<bool(const Member&)>& wanted,
      const std::function<void(Member&, const std::shared_ptr<Round>&, size_t slot)>& send);
  enum class Until { kAll, kAllOrFailure };  // with the second also a wish to cancel ends the wait
  // Waits for the answers until none has come and no byte has moved for `stall_ms`.
  void WaitWhileMoving(Round& round, uint64_t stall_ms, Until until);
  bool cancelled() const { return course_ != nullptr && course_->cancelled(); }
  // Lets those go that have answered neither round, and adds them to `why`.
  absl::Status DropUnanswered(const Answers& first, const Answers& second, absl::Status why);
  absl::Status FirstFailure(const Answers& answers, std::string_view unanswered) const;
  // Of moves; that of one that was cancelled is the cancellation.
  absl::Status FailureOf(const Answers& answers) const;
  // Sends Abort to all that this is about, and waits.
  Answers AbortAll();
  void Tell(const Member& member, wire::ProcessState state);

  std::span<Member> members_;
  Events& events_;
  const Limits limits_;
  const uint64_t epoch_;
  Course* const course_;
};

}  // namespace parkade::daemon
