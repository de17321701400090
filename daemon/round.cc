// Collects answers.
#include "daemon/round.h"

#include <utility>

#include "daemon/status.h"

namespace parkade::daemon {

void Round::Give(size_t slot, Answer answer) {
  const MutexLock lock(mu_);
  if (answers_[slot].has_value()) return;
  if (!answer.status.ok()) failed_ = true;
  answers_[slot] = std::move(answer);
  ++count_;
  ++total_;
  given_.NotifyAll();
}

bool Round::Wait(Deadline by, bool failure_ends) {
  const MutexLock lock(mu_);
  const auto done = [&]() REQUIRES(mu_) {
    return count_ == answers_.size() || (failure_ends && failed_);
  };
  while (!done() && !by.Passed()) given_.WaitUntil(mu_, by);
  return done();
}

bool Round::WaitAll(Deadline by) { return Wait(by, false); }

bool Round::WaitAllOrFailure(Deadline by) { return Wait(by, true); }

uint64_t Round::WaitForMore(uint64_t seen, Deadline by) {
  const MutexLock lock(mu_);
  while (total_ <= seen && !by.Passed()) given_.WaitUntil(mu_, by);
  return total_;
}

void Round::Reopen(size_t slot) {
  const MutexLock lock(mu_);
  answers_[slot].reset();
  --count_;
}

void Round::Note(size_t slot, const wire::WrongBlock& note) {
  const MutexLock lock(mu_);
  if (notes_[slot].size() < wire::kMaxWrongBlocks) notes_[slot].push_back(note);
}

std::vector<wire::WrongBlock> Round::notes(size_t slot) const {
  const MutexLock lock(mu_);
  return notes_[slot];
}

std::vector<std::optional<Answer>> Round::answers() const {
  const MutexLock lock(mu_);
  std::vector<std::optional<Answer>> answers = answers_;
  for (std::optional<Answer>& answer : answers) {
    if (answer) answer->status = Annotate(answer->status, "");  // which makes it anew
  }
  return answers;
}

}  // namespace parkade::daemon
