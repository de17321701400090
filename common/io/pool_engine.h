// PoolEngine: the IoEngine over pread and pwrite on a few threads, where io_uring is refused.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "common/fd.h"
#include "common/io/io_engine.h"
#include "common/io/transfer.h"
#include "common/mutex.h"

namespace parkade {

class PoolEngine final : public IoEngine {
 public:
  // Works with fewer threads than it would like, also with none.
  PoolEngine(uint32_t depth, std::unique_ptr<ThreadStarter> threads);
  ~PoolEngine() override;

  void UseFiles(std::span<const int> files) override;
  bool UseMemory(std::span<const std::span<char>>) override { return false; }
  Result<void> Submit(const IoRequest& request) override;
  Result<IoCompletion> WaitAny(Deadline by) override;
  void Abandon() override;
  uint32_t in_flight() const override { return in_flight_; }
  uint32_t depth() const override { return depth_; }

 private:
  static void Work(void* self);
  IoCompletion Serve(Transfer transfer) const;

  const uint32_t depth_;
  uint32_t in_flight_ = 0;  // the caller's thread alone
  // Of its own, so that the number of a closed file is never written to; changes only with nothing
  // in flight.
  std::vector<Fd> files_;
  std::atomic<bool> abandoned_{false};
  uint32_t thread_count_ = 0;  // constant after construction

  Mutex mu_;  // innermost
  CondVar work_or_stop_;
  CondVar completed_;
  bool stop_ GUARDED_BY(mu_) = false;
  std::deque<Transfer> waiting_ GUARDED_BY(mu_);
  std::deque<IoCompletion> done_ GUARDED_BY(mu_);
  std::unique_ptr<ThreadStarter> threads_;  // last: joined before the rest goes
};

}  // namespace parkade
