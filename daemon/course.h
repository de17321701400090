// Course: what others may know of an operation while its thread works, and their wish that it end
// early.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/bytes.h"
#include "common/deadline.h"
#include "common/mutex.h"
#include "daemon/gpu_queue.h"
#include "daemon/orders.h"
#include "daemon/process.h"
#include "daemon/registry.h"

namespace parkade::daemon {

// Where an operation comes from.
struct Origin {
  std::string id;          // of the operation; empty: nobody asks about it
  std::string caller;      // Caller::Name
  std::string request_id;  // empty: the request had none
  uint64_t begun_ns = 0;   // CLOCK_REALTIME
};

class Course {
 public:
  // A wait looks for a wish to end at least this often.
  static constexpr uint64_t kLookMs = 50;

  explicit Course(Origin origin = {}) : origin_(std::move(origin)) {}

  const Origin& origin() const { return origin_; }
  uint64_t arrived_ns() const { return arrived_ns_; }  // CLOCK_MONOTONIC

  // Any thread. The operation ends as soon as it can be undone; where it cannot any more it goes
  // on. `who` is named in the answer.
  void Cancel(const std::string& who) EXCLUDES(mu_);
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // Any thread. Nobody listens for the answer any more: a wait for its turn ends, anything else
  // goes on.
  void Abandon() { abandoned_.store(true, std::memory_order_relaxed); }
  // It is of no use to wait for memory any longer.
  bool unwanted() const { return cancelled() || abandoned_.load(std::memory_order_relaxed); }
  // CANCELLED, for an operation that ends because of one of the two: reason CANCELLED or
  // CALLER_GONE.
  absl::Status Cancellation() const EXCLUDES(mu_);

  // By the operation's thread: whom it is about; from now on bytes move; none will move any more.
  void Concerns(const ProcessList& processes) EXCLUDES(mu_);
  void Moves() EXCLUDES(mu_);
  void Ends() EXCLUDES(mu_);
  // What is known of its processes although it fails.
  void Report(Outcomes outcomes) EXCLUDES(mu_);
  // What it waits for now; empty: it does not wait.
  void Waits(std::vector<GpuWait> waits) EXCLUDES(mu_);

  // Any thread.
  std::vector<int> pids() const EXCLUDES(mu_);
  std::vector<GpuWait> waits() const EXCLUDES(mu_);
  Outcomes report() const EXCLUDES(mu_);
  struct Progress {
    Bytes done = 0;
    Bytes total = 0;
    double bytes_per_second = 0;  // 0: not known yet
  };
  // Empty unless bytes move. Reads the ledgers.
  std::optional<Progress> progress() const EXCLUDES(mu_);

 private:
  struct Party {
    std::shared_ptr<Process> process;
    bool was_out = false;       // before this operation
    Bytes done = 0, total = 0;  // when somebody saw it move last
  };

  const Origin origin_;
  const uint64_t arrived_ns_ = MonotonicNs();
  std::atomic<bool> cancelled_{false};  // release after who_cancelled_ stands, acquire by the waits
  std::atomic<bool> abandoned_{false};
  mutable Mutex mu_;  // innermost; ledgers are read without it
  std::string who_cancelled_ GUARDED_BY(mu_);
  std::vector<int> pids_ GUARDED_BY(mu_);
  std::vector<GpuWait> waits_ GUARDED_BY(mu_);
  Outcomes report_ GUARDED_BY(mu_);
  mutable std::vector<Party> parties_ GUARDED_BY(mu_);
  uint64_t moves_since_ns_ GUARDED_BY(mu_) = 0;
};

}  // namespace parkade::daemon
