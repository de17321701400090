// Hands slots on.
#include "shim/stream/slot_ring.h"

#include <algorithm>
#include <utility>

namespace parkade::shim {
namespace {

Error TornBy(const Error& cause, uint64_t step) {
  return MakeError(Code::kFailedPrecondition, "TORN",
                   "step %llu has left the store half old, half new: %.120s",
                   (unsigned long long)step, cause.what);
}

}  // namespace

SlotRing::SlotRing(uint32_t slots, std::vector<store::BucketState> buckets, uint64_t committed)
    : slots_(slots),
      buckets_(std::move(buckets)),
      writing_(buckets_.size()),
      committed_(committed),
      last_(committed) {}

bool SlotRing::Quiet() const {
  if (committing_) return false;
  for (const Slot& slot : slots_) {
    if (slot.state == State::kReading || slot.state == State::kCopying) return false;
  }
  return std::none_of(writing_.begin(), writing_.end(), [](bool writes) { return writes; });
}

std::optional<uint32_t> SlotRing::FreeSlot() const {
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state == State::kFree) return i;
  }
  return std::nullopt;
}

void SlotRing::Restart() {
  open_ = false;
  next_read_ = next_acquire_ = submitted_ = 0;
}

Result<void> SlotRing::Begin(uint64_t step, uint32_t slots, bool fills) {
  MutexLock lock(mu_);
  if (torn_) return *torn_;
  if (open_) return MakeError(Code::kFailedPrecondition, "STEP_ORDER", "a step is open");
  if (!fills && last_ == store::kNoStep) {
    return MakeError(Code::kFailedPrecondition, "NOT_FILLED", "the store has not been filled");
  }
  // The first filling may have any number.
  if (!(fills && last_ == store::kNoStep) && step != last_ + 1) {
    return MakeError(Code::kFailedPrecondition, "STEP_ORDER", "step %llu does not follow step %lld",
                     (unsigned long long)step, (long long)last_);
  }
  if (slots != slots_.size()) slots_.assign(slots, Slot());
  Restart();
  open_ = true;
  fills_ = fills;
  last_ = step;
  error_.reset();
  to_commit_ += buckets_.size();
  changed_.NotifyAll();
  return {};
}

Result<std::optional<StreamJob>> SlotRing::Acquire(Deadline by) {
  MutexLock lock(mu_);
  if (!open_) return MakeError(Code::kFailedPrecondition, "STEP_ORDER", "no step is open");
  const uint64_t begin_ns = MonotonicNs();
  for (;;) {
    if (error_) return *error_;
    if (next_acquire_ == buckets_.size()) return std::optional<StreamJob>();
    for (Slot& slot : slots_) {
      const bool ready = slot.state == State::kReady && slot.job.bucket == next_acquire_;
      if (!ready && !(fills_ && slot.state == State::kFree)) continue;
      if (fills_) {
        slot.job = {uint32_t(&slot - slots_.data()), next_acquire_, last_, true};
      }
      slot.state = State::kHeld;
      ++next_acquire_;
      waited_ns_ += MonotonicNs() - begin_ns;
      return std::optional<StreamJob>(slot.job);
    }
    const bool all_held = std::all_of(slots_.begin(), slots_.end(),
                                      [](const Slot& s) { return s.state == State::kHeld; });
    if (all_held) {
      return MakeError(Code::kFailedPrecondition, "ALL_HELD",
                       "every slot is held: submit a bucket before the next is acquired");
    }
    if (by.Passed()) {
      return MakeError(Code::kDeadlineExceeded, "BUCKET_NOT_READY", "bucket %u is not ready yet",
                       next_acquire_);
    }
    changed_.WaitUntil(mu_, by);
  }
}

Result<void> SlotRing::Submit(uint32_t slot) {
  MutexLock lock(mu_);
  if (error_) return *error_;
  if (slot >= slots_.size() || slots_[slot].state != State::kHeld) {
    return MakeError(Code::kInvalidArgument, "NOT_HELD", "this bucket is not held");
  }
  slots_[slot].state = State::kWaiting;
  writing_[slots_[slot].job.bucket] = true;
  to_write_.push_back(slot);
  ++submitted_;
  changed_.NotifyAll();
  return {};
}

Result<void> SlotRing::Release(uint32_t slot) {
  MutexLock lock(mu_);
  if (slot >= slots_.size() || slots_[slot].state != State::kHeld) {
    return MakeError(Code::kInvalidArgument, "NOT_HELD", "this bucket is not held");
  }
  slots_[slot].state = State::kFree;
  changed_.NotifyAll();
  return {};
}

Result<void> SlotRing::End() {
  MutexLock lock(mu_);
  if (!open_) return MakeError(Code::kFailedPrecondition, "STEP_ORDER", "no step is open");
  if (error_) return *error_;
  if (submitted_ != buckets_.size()) {
    return MakeError(Code::kFailedPrecondition, "UNFINISHED", "%u of %zu buckets were submitted",
                     submitted_, buckets_.size());
  }
  Restart();
  if (buckets_.empty()) committed_ = last_;
  return {};
}

void SlotRing::Abort(bool torn) {
  MutexLock lock(mu_);
  if (!open_) return;
  aborting_ = true;
  // What has not begun to be written never is, and of the step before only where that works.
  std::deque<uint32_t> kept;
  for (const uint32_t slot : to_write_) {
    if (!cannot_write_ && slots_[slot].job.step != last_) {
      kept.push_back(slot);
      continue;
    }
    slots_[slot].state = State::kFree;
    writing_[slots_[slot].job.bucket] = false;
  }
  to_write_ = std::move(kept);
  changed_.NotifyAll();
  while (!Quiet()) changed_.WaitUntil(mu_, Deadline::InMs(1000));
  for (Slot& slot : slots_) slot.state = State::kFree;
  aborting_ = false;
  if (torn || begun_ || (committed_ != last_ - 1 && committed_ != store::kNoStep)) {
    const Error cause =
        error_ ? *error_ : MakeError(Code::kAborted, "ABORTED", "the step was given up");
    torn_ = TornBy(cause, last_);
  } else {
    last_ = committed_;
    to_commit_ = 0;
  }
  error_.reset();
  cannot_write_ = false;
  Restart();
}

Result<void> SlotRing::Drain(Deadline by) {
  MutexLock lock(mu_);
  for (;;) {
    if (torn_) return *torn_;
    if (error_) return *error_;
    if (open_ ? to_write_.empty() && Quiet() : committed_ == last_) return {};
    if (by.Passed()) {
      return MakeError(Code::kDeadlineExceeded, "NOT_WRITTEN",
                       "the last bytes are not written yet");
    }
    changed_.WaitUntil(mu_, by);
  }
}

void SlotRing::Stop() {
  MutexLock lock(mu_);
  stopping_ = true;
  changed_.NotifyAll();
}

void SlotRing::Adopt(std::vector<store::BucketState> buckets, uint64_t step) {
  MutexLock lock(mu_);
  buckets_ = std::move(buckets);
  committed_ = last_ = step;
}

void SlotRing::Tear(const Error& cause, uint64_t step) {
  MutexLock lock(mu_);
  if (!torn_) torn_ = TornBy(cause, step);
}

uint64_t SlotRing::committed() const {
  MutexLock lock(mu_);
  return committed_;
}

std::optional<Error> SlotRing::torn() const {
  MutexLock lock(mu_);
  return torn_;
}

std::optional<Error> SlotRing::failure() const {
  MutexLock lock(mu_);
  return error_;
}

store::BucketState SlotRing::bucket(uint32_t bucket) const {
  MutexLock lock(mu_);
  return buckets_[bucket];
}

uint64_t SlotRing::waited_ns() const {
  MutexLock lock(mu_);
  return waited_ns_;
}

std::optional<StreamJob> SlotRing::TakeRead(Wait wait) {
  MutexLock lock(mu_);
  for (;;) {
    if (stopping_) return std::nullopt;
    const auto free = FreeSlot();
    if (open_ && !fills_ && !aborting_ && !error_ && free && next_read_ < buckets_.size() &&
        !writing_[next_read_]) {
      Slot& slot = slots_[*free];
      slot.job = {*free, next_read_++, last_, false};
      slot.state = State::kReading;
      return slot.job;
    }
    if (wait == Wait::kLook) return std::nullopt;
    changed_.WaitUntil(mu_, Deadline::InMs(60'000));
  }
}

void SlotRing::HasRead(const StreamJob& job) {
  MutexLock lock(mu_);
  slots_[job.slot].state = aborting_ || error_ ? State::kFree : State::kReady;
  changed_.NotifyAll();
}

std::optional<StreamJob> SlotRing::TakeWrite(Wait wait) {
  MutexLock lock(mu_);
  for (;;) {
    const bool fails = to_write_.empty() || cannot_write_ || torn_ ||
                       (error_ && open_ && slots_[to_write_.front()].job.step == last_);
    if (!fails) {
      const uint32_t slot = to_write_.front();
      to_write_.pop_front();
      slots_[slot].state = State::kCopying;
      return slots_[slot].job;
    }
    if (stopping_) return std::nullopt;
    if (wait == Wait::kLook) return std::nullopt;
    changed_.WaitUntil(mu_, Deadline::InMs(60'000));
  }
}

void SlotRing::BeginsWriting() {
  MutexLock lock(mu_);
  begun_ = true;
}

void SlotRing::HasCopied(const StreamJob& job) {
  MutexLock lock(mu_);
  slots_[job.slot].state = State::kFree;
  changed_.NotifyAll();
}

bool SlotRing::HasWritten(const StreamJob& job, const store::BucketState& state) {
  MutexLock lock(mu_);
  buckets_[job.bucket] = state;
  writing_[job.bucket] = false;
  const uint64_t left = --to_commit_;
  changed_.NotifyAll();
  // Of the step that is open everything is still to come, when this was one of the step before.
  committing_ = job.step == last_ ? left == 0 : left == buckets_.size();
  return committing_;
}

void SlotRing::HasCommitted(uint64_t step) {
  MutexLock lock(mu_);
  committed_ = step;
  begun_ = committing_ = false;
  changed_.NotifyAll();
}

void SlotRing::FailStep(const Error& error) {
  MutexLock lock(mu_);
  if (open_) {
    if (!error_) error_ = error;
  } else if (committed_ != last_ && !torn_) {
    // Its caller has ended it, on bytes that may not have come: nobody can give it up any more.
    torn_ = TornBy(error, last_);
  }
  changed_.NotifyAll();
}

void SlotRing::FailWriting(const Error& error) {
  MutexLock lock(mu_);
  cannot_write_ = true;
  committing_ = false;
  if (!error_) error_ = error;
  if (!open_ && !torn_) torn_ = TornBy(error, last_);
  changed_.NotifyAll();
}

void SlotRing::Forget(const std::vector<StreamJob>& jobs) {
  MutexLock lock(mu_);
  for (const StreamJob& job : jobs) {
    Slot& slot = slots_[job.slot];
    const bool same = slot.job.bucket == job.bucket && slot.job.step == job.step;
    if (same && (slot.state == State::kReading || slot.state == State::kCopying)) {
      slot.state = State::kFree;
    }
    writing_[job.bucket] = false;
  }
  changed_.NotifyAll();
}

bool SlotRing::stopping() const {
  MutexLock lock(mu_);
  return stopping_;
}

}  // namespace parkade::shim
