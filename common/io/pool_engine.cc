// Serves requests on threads with blocking system calls.
#include "common/io/pool_engine.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace parkade {
namespace {

// Blocking direct I/O needs about this many at once to keep an NVMe drive busy.
constexpr uint32_t kMaxThreads = 8;

}  // namespace

PoolEngine::PoolEngine(uint32_t depth, std::unique_ptr<ThreadStarter> threads)
    : depth_(depth), threads_(std::move(threads)) {
  while (thread_count_ < std::min(depth, kMaxThreads)) {
    if (!threads_->Start("parkade-io", &Work, this).ok()) break;
    ++thread_count_;
  }
}

PoolEngine::~PoolEngine() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    work_or_stop_.NotifyAll();
  }
  threads_->JoinAll();
}

void PoolEngine::UseFiles(std::span<const int> files) {
  files_.clear();
  for (const int fd : files) files_.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

void PoolEngine::Abandon() {
  abandoned_.store(true, std::memory_order_relaxed);
  MutexLock lock(mu_);
  waiting_.clear();
}

Result<void> PoolEngine::Submit(const IoRequest& request) {
  if (in_flight_ == depth_ || request.file >= files_.size()) {
    return MakeError(Code::kInternal, "IO_DEPTH", "request for file %u of %zu with %u in flight",
                     request.file, files_.size(), in_flight_);
  }
  if (!files_[request.file]) return OsError(EMFILE, "a descriptor for file %u", request.file);
  ++in_flight_;
  MutexLock lock(mu_);
  waiting_.push_back(Transfer(request));
  work_or_stop_.NotifyAll();
  return {};
}

Result<IoCompletion> PoolEngine::WaitAny(Deadline by) {
  MutexLock lock(mu_);
  if (thread_count_ == 0 && !waiting_.empty()) {
    const Transfer transfer = waiting_.front();
    waiting_.pop_front();
    mu_.Unlock();
    const IoCompletion completion = Serve(transfer);
    mu_.Lock();
    done_.push_back(completion);
  }
  while (done_.empty() && in_flight_ != 0 && !by.Passed()) completed_.WaitUntil(mu_, by);
  if (done_.empty()) {
    return MakeError(Code::kDeadlineExceeded, "TIMED_OUT", "waiting for one of %u requests",
                     in_flight_);
  }
  const IoCompletion completion = done_.front();
  done_.pop_front();
  --in_flight_;
  return completion;
}

IoCompletion PoolEngine::Serve(Transfer transfer) const {
  const IoRequest& request = transfer.request();
  const int fd = files_[request.file].get();
  int64_t outcome;
  do {
    outcome = request.kind == IoRequest::Kind::kRead
                  ? pread(fd, transfer.memory(), transfer.bytes(), off_t(transfer.offset()))
                  : pwrite(fd, transfer.memory(), transfer.bytes(), off_t(transfer.offset()));
    if (outcome < 0) outcome = -errno;
  } while (transfer.Advance(outcome) == Transfer::Next::kCallAgain &&
           !abandoned_.load(std::memory_order_relaxed));
  return {request.tag, transfer.result()};
}

void PoolEngine::Work(void* arg) {
  PoolEngine& self = *static_cast<PoolEngine*>(arg);
  // Waiting for work needs no end: the destructor wakes it. The bound only guards a lost wake-up.
  constexpr uint64_t kIdleMs = 10'000;
  MutexLock lock(self.mu_);
  for (;;) {
    while (self.waiting_.empty() && !self.stop_) {
      self.work_or_stop_.WaitUntil(self.mu_, Deadline::InMs(kIdleMs));
    }
    if (self.waiting_.empty()) return;
    const Transfer transfer = self.waiting_.front();
    self.waiting_.pop_front();
    self.mu_.Unlock();
    const IoCompletion completion = self.Serve(transfer);
    self.mu_.Lock();
    self.done_.push_back(completion);
    self.completed_.NotifyAll();
  }
}

}  // namespace parkade
