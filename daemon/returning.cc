// A set and those who wait for it to shrink.
#include "daemon/returning.h"

#include <algorithm>

namespace parkade::daemon {

void Returning::Expect(const Process& process) {
  const MutexLock lock(mu_);
  expected_.insert(&process);
}

void Returning::Done(const Process& process) {
  const MutexLock lock(mu_);
  if (expected_.erase(&process) != 0) changed_.NotifyAll();
}

bool Returning::Await(const ProcessList& processes, Deadline by) {
  const MutexLock lock(mu_);
  const auto is_expected = [&](const auto& process)
                               REQUIRES(mu_) { return expected_.contains(process.get()); };
  while (std::any_of(processes.begin(), processes.end(), is_expected)) {
    if (by.Passed()) return false;
    changed_.WaitUntil(mu_, by);
  }
  return true;
}

void Returning::Close() {
  const MutexLock lock(mu_);
  expected_.clear();
  changed_.NotifyAll();
}

}  // namespace parkade::daemon
