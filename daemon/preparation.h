// Preparation: closes the gates of a group and waits until all of it has drained.
//
// Ranks that are stopped inside a collective cannot drain while the launch of a peer is held at its
// closed gate. So the ranks that have drained let calls through, until all are drained at the same
// moment: one each at first, then twice as many as long as the same ranks wait, half as many
// whenever others do. Where they have none, or nobody has drained, the ranks wait for
// each other in a circle, each inside another collective; then they let calls through while they
// drain. Knows no undo; the transition has it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "daemon/course.h"
#include "daemon/member.h"
#include "daemon/orders.h"

namespace parkade::daemon {

class Preparation {
 public:
  // `members` outlive it and are claimed. `course` can be cancelled; null: nobody can.
  Preparation(std::span<Member> members, const GateOrder& gate, uint64_t epoch, uint64_t answer_ms,
              const Course* course = nullptr);

  // Sends Prepare to all that are not `already`, then LetThrough where it is needed. Fills
  // `prepared`; members that turn out to be paused become `already`. OK when all are drained and
  // shut. On a failure, as CANCELLED, some gates are closed. BUSY names those that could not drain
  // (metadata: pid, rank and device of the first). Blocks until the drain timeout and `answer_ms`
  // at most.
  absl::Status Run();

 private:
  // What one member owes.
  struct Turn {
    bool open = false;        // a message is unanswered
    bool drained = false;     // it has been, at least once
    bool idle = false;        // when it last let a call through, none came
    uint64_t overdue_ns = 0;  // unanswered by then, it waits for a peer
  };
  using Answers = std::vector<std::optional<Answer>>;

  void Close();
  // Takes over what has been answered. False: one has failed.
  bool Take(const Answers& answers, uint64_t now_ns);
  // How many calls who has drained is to let through now.
  uint32_t NextCalls();
  // Sends LetThrough when somebody is overdue; returns when to look again.
  uint64_t LetThrough(uint64_t now_ns);
  // Whether no rank that has drained can be expected to let a call through soon.
  bool InCircle(uint64_t now_ns) const;
  // Sends LetThrough to those who drain, and puts off the time at which they are overdue.
  void Nudge(uint64_t now_ns);
  absl::Status Refusal(const Answers& answers) const;

  const std::span<Member> members_;
  const GateOrder gate_;
  const uint64_t epoch_;
  const Course* const course_;
  const uint64_t drain_until_ns_;  // CLOCK_MONOTONIC, as all times here
  const uint64_t over_ns_;
  const std::shared_ptr<Round> round_;
  std::vector<Turn> turns_;
  uint64_t progress_ns_ = 0;  // a member has drained with something new done
  uint64_t quiet_ns_ = 0;     // since when nobody has answered
  uint32_t calls_ = 0;        // that a rank was last to let through; 0: none was yet
  std::vector<bool> waited_;  // who was not drained then
  uint64_t settle_ns_;        // so long it must be quiet before calls are let through
};

}  // namespace parkade::daemon
