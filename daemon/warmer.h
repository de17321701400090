// Warmer: has processes make the host memory of their pauses ready before the first one, within the
// host budget. One process after the other, so that they do not slow each other down.
#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <utility>

#include "common/mutex.h"
#include "daemon/host_budget.h"
#include "daemon/process.h"
#include "daemon/round.h"

namespace parkade::daemon {

class Warmer {
 public:
  explicit Warmer(HostBudget& budget);  // which outlives it
  // Waits for no process.
  ~Warmer();

  // The process would like to hold `bytes` of host memory in all; what it wanted before counts no
  // more. Any thread; does not wait.
  void Want(std::shared_ptr<Process> process, Bytes bytes) EXCLUDES(mu_);

 private:
  void Loop();
  void Warm(Process& process, Bytes bytes);
  // Under way from now on; false when the daemon ends.
  bool Begin(const std::shared_ptr<Round>& round) EXCLUDES(mu_);

  HostBudget& budget_;
  Mutex mu_;  // not held while a process is told or waited for
  CondVar changed_;
  std::deque<std::pair<std::shared_ptr<Process>, Bytes>> wanted_ GUARDED_BY(mu_);
  std::shared_ptr<Round> under_way_ GUARDED_BY(mu_);
  bool ending_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace parkade::daemon
