// The lane's thread and its queue.
#include "shim/pause/release_lane.h"

#include "shim/cuda/in_shim.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {
namespace {

constexpr uint64_t kIdleMs = 60'000;  // then it looks again

}  // namespace

Result<void> ReleaseLane::Release(Range& range, Piece& piece) {
  if (!thread_.joinable()) {
    auto thread = Thread::Start("parkade-release", Run, this);
    if (thread.ok()) thread_ = std::move(*thread);
  }
  MutexLock lock(mu_);
  if (error_) return *error_;
  waiting_.push_back({&range, &piece});
  if (!thread_.joinable()) ReleaseNext();
  changed_.NotifyAll();
  if (error_) return *error_;
  return {};
}

void ReleaseLane::Work() {
  InShim ours;
  ScopedRelaxedCapture relaxed(driver_);
  MutexLock lock(mu_);
  for (;;) {
    if (!waiting_.empty()) {
      ReleaseNext();
    } else if (ended_) {
      return;
    } else {
      changed_.WaitUntil(mu_, Deadline::InMs(kIdleMs));
    }
  }
}

void ReleaseLane::ReleaseNext() {
  const Item item = waiting_.front();
  waiting_.pop_front();
  mu_.Unlock();
  const Result<void> released = ReleasePiece(driver_, memory_, *item.range, *item.piece);
  mu_.Lock();
  if (released.ok()) {
    released_bytes_ += item.piece->bytes;
    if (ledger_ != nullptr) ledger_->AddShifted(item.range->device, -int64_t(item.piece->bytes));
  } else {
    error_ = released.error();
    waiting_.clear();
  }
}

Result<void> ReleaseLane::Finish() {
  {
    MutexLock lock(mu_);
    ended_ = true;
    changed_.NotifyAll();
  }
  thread_.Join();
  MutexLock lock(mu_);
  ended_ = false;
  if (error_) return *error_;
  return {};
}

void ReleaseLane::Stop() {
  {
    MutexLock lock(mu_);
    waiting_.clear();
  }
  [[maybe_unused]] const Result<void> known = Finish();
}

Bytes ReleaseLane::released_bytes() const {
  MutexLock lock(mu_);
  return released_bytes_;
}

}  // namespace parkade::shim
