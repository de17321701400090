// Round: messages to several processes, one at a time to each, and their answers.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/deadline.h"
#include "common/mutex.h"
#include "proto/wire.h"

namespace parkade::daemon {

// What came back for one process: its Reply, or why there is none.
struct Answer {
  absl::Status status;  // of the Reply, or SHIM_DISCONNECTED, PROCESS_ENDED
  std::optional<wire::Reply> reply;
};

class Round {
 public:
  explicit Round(size_t processes) : answers_(processes), notes_(processes) {}

  // Any thread. The first answer to a message counts.
  void Give(size_t slot, Answer answer) EXCLUDES(mu_);

  // Each waits until `by` at most; true when what it waits for is there.
  bool WaitAll(Deadline by) EXCLUDES(mu_);           // every slot has its answer
  bool WaitAllOrFailure(Deadline by) EXCLUDES(mu_);  // that, or one of them is a failure

  // Waits until more answers than `seen` have come since the beginning, or until `by`. Returns how
  // many have.
  uint64_t WaitForMore(uint64_t seen, Deadline by) EXCLUDES(mu_);
  // The slot, which has its answer, waits for that to another message.
  void Reopen(size_t slot) EXCLUDES(mu_);

  // Any thread. What a process tells of before its answer; more than a message allows is left out.
  void Note(size_t slot, const wire::WrongBlock& note) EXCLUDES(mu_);
  std::vector<wire::WrongBlock> notes(size_t slot) const EXCLUDES(mu_);

  // Slots without an answer are empty. Each status is the caller's own: absl counts references in a
  // library of its own, where the thread sanitizer does not see them.
  std::vector<std::optional<Answer>> answers() const EXCLUDES(mu_);

 private:
  bool Wait(Deadline by, bool failure_ends) EXCLUDES(mu_);

  mutable Mutex mu_;  // innermost
  CondVar given_;
  std::vector<std::optional<Answer>> answers_ GUARDED_BY(mu_);
  std::vector<std::vector<wire::WrongBlock>> notes_ GUARDED_BY(mu_);
  size_t count_ GUARDED_BY(mu_) = 0;    // of answers_ that are there
  uint64_t total_ GUARDED_BY(mu_) = 0;  // ever given
  bool failed_ GUARDED_BY(mu_) = false;
};

}  // namespace parkade::daemon
