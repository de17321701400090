// SlotRing: which bucket is in which slot, and whose turn it is: the reader's, the caller's, or the
// writer's. It hands slots on from one to the next and knows how far a step has come; it moves no
// byte and calls no driver.
//
// A slot is free, is being read into, ready, held by the caller, waits to be written, is copied out
// of, and is free again while its bucket's last bytes are still on their way to the disk.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "common/deadline.h"
#include "common/mutex.h"
#include "common/result.h"
#include "common/store/records.h"

namespace parkade::shim {

// One bucket of one step in one slot.
struct StreamJob {
  uint32_t slot = 0;
  uint32_t bucket = 0;
  uint64_t step = 0;
  bool main_only = false;  // the store is being filled: the first segment alone
};

class SlotRing {
 public:
  enum class Wait : uint8_t { kLook, kForOne };

  // Every bucket as it is known when the store is opened.
  SlotRing(uint32_t slots, std::vector<store::BucketState> buckets, uint64_t committed);

  // ---- caller's thread ----

  // The step begins: the reader may. `fills`: nothing is read, and a bucket has its first segment
  // alone. What an earlier step has failed with, if that has left the store torn; STEP_ORDER when
  // it is not the one after the last, or another is open.
  Result<void> Begin(uint64_t step, uint32_t slots, bool fills);
  // The next bucket's slot once it is ready; nullopt when all have been given out.
  // DEADLINE_EXCEEDED BUCKET_NOT_READY; the step's error.
  Result<std::optional<StreamJob>> Acquire(Deadline by);
  // The caller has queued all its work on the slot.
  Result<void> Submit(uint32_t slot);
  // The caller only wanted to look: the bucket stays as it was, and the step can but be given up.
  // Nothing on the GPU uses the slot any more.
  Result<void> Release(uint32_t slot);
  // All buckets have been submitted. UNFINISHED otherwise: the step stays open.
  Result<void> End();
  // Gives the step up and waits until nobody works on it. Afterwards the store is at the step
  // before, unless some bucket has begun to be written, or `torn` says that the caller has changed
  // what cannot be taken back: then it is torn for good.
  void Abort(bool torn);
  // Waits until everything is written. The error of what was not.
  Result<void> Drain(Deadline by);
  // Nothing is to be done any more; lanes end.
  void Stop();
  // A store that has not been filled has been, by other means than a step: every bucket is at
  // `step` now. No step is open.
  void Adopt(std::vector<store::BucketState> buckets, uint64_t step);
  // It was to be, and is half filled: torn for good.
  void Tear(const Error& cause, uint64_t step);

  uint64_t committed() const;  // the last step that is whole
  std::optional<Error> torn() const;
  std::optional<Error> failure() const;  // of the open step
  store::BucketState bucket(uint32_t bucket) const;
  uint32_t bucket_count() const { return uint32_t(buckets_.size()); }
  // Times that the caller has waited for a bucket, in all.
  uint64_t waited_ns() const;

  // ---- reader ----

  // The next bucket to read, once there is a slot for it and what a step before has written to it
  // is written. nullopt: none now (kLook), or the end.
  std::optional<StreamJob> TakeRead(Wait wait);
  // Its last copy has been queued, and an event behind it.
  void HasRead(const StreamJob& job);

  // ---- writer ----

  std::optional<StreamJob> TakeWrite(Wait wait);
  // From now on the bucket is not what it was: a step that fails is torn.
  void BeginsWriting();
  // Its bytes have left the slot.
  void HasCopied(const StreamJob& job);
  // Its bytes are where they belong. True with the last bucket of its step.
  bool HasWritten(const StreamJob& job, const store::BucketState& state);
  void HasCommitted(uint64_t step);

  // Bytes could not be written: the step that is under way has failed, and what is behind it.
  void FailWriting(const Error& error);

  // ---- all three ----

  // The open step has failed; what failed first counts. One before it is still written. Where none
  // is open but one is not all written yet, the store is torn: that was made of what has failed.
  void FailStep(const Error& error);
  // A lane has given up what it had of a step that failed, and has nothing any more.
  void Forget(const std::vector<StreamJob>& jobs);
  bool stopping() const;

 private:
  enum class State : uint8_t { kFree, kReading, kReady, kHeld, kWaiting, kCopying };
  struct Slot {
    State state = State::kFree;
    StreamJob job;
  };

  bool Quiet() const REQUIRES(mu_);
  std::optional<uint32_t> FreeSlot() const REQUIRES(mu_);
  void Restart() REQUIRES(mu_);

  mutable Mutex mu_;  // innermost
  CondVar changed_;
  std::vector<Slot> slots_ GUARDED_BY(mu_);
  std::vector<store::BucketState> buckets_;    // its size never changes; the rest GUARDED_BY(mu_)
  std::vector<bool> writing_ GUARDED_BY(mu_);  // submitted, and not written yet
  std::deque<uint32_t> to_write_ GUARDED_BY(mu_);
  uint64_t committed_ GUARDED_BY(mu_);
  uint64_t last_ GUARDED_BY(mu_);           // the step that was begun last and not given up
  uint64_t to_commit_ GUARDED_BY(mu_) = 0;  // buckets of it that are not written yet
  bool open_ GUARDED_BY(mu_) = false;
  bool fills_ GUARDED_BY(mu_) = false;
  bool aborting_ GUARDED_BY(mu_) = false;
  bool begun_ GUARDED_BY(mu_) = false;       // some bucket of the step is being written, or is
  bool committing_ GUARDED_BY(mu_) = false;  // all of a step is written, and not committed yet
  bool stopping_ GUARDED_BY(mu_) = false;
  uint32_t next_read_ GUARDED_BY(mu_) = 0;
  uint32_t next_acquire_ GUARDED_BY(mu_) = 0;
  uint32_t submitted_ GUARDED_BY(mu_) = 0;
  uint64_t waited_ns_ GUARDED_BY(mu_) = 0;
  std::optional<Error> error_ GUARDED_BY(mu_);  // of the step
  bool cannot_write_ GUARDED_BY(mu_) = false;   // which error_ says
  std::optional<Error> torn_ GUARDED_BY(mu_);   // of the store, for good
};

}  // namespace parkade::shim
