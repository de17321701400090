// Runs launches in order.
#include "tests/unit/daemon/fake_job.h"

#include <algorithm>
#include <utility>

namespace parkade::testing {

FakeJob::FakeJob(std::vector<Program> programs, std::map<int, std::vector<size_t>> communicators)
    : communicators_(std::move(communicators)) {
  for (Program& program : programs) ranks_.push_back({std::move(program)});
}

void FakeJob::Launch(size_t rank, size_t count) {
  const MutexLock lock(mu_);
  ranks_[rank].launched += count;
  RunWhatCan();
}

size_t FakeJob::launched(size_t rank) const {
  const MutexLock lock(mu_);
  return ranks_[rank].launched;
}

bool FakeJob::Drained(size_t rank) const {
  const MutexLock lock(mu_);
  return !ranks_[rank].waits();
}

void FakeJob::StopLaunching(size_t rank) {
  const MutexLock lock(mu_);
  ranks_[rank].stopped = true;
}

bool FakeJob::launches(size_t rank) const {
  const MutexLock lock(mu_);
  return !ranks_[rank].stopped;
}

void FakeJob::RunWhatCan() {
  for (bool ran = true; ran;) {
    ran = false;
    for (Rank& rank : ranks_) {
      while (rank.waits() && rank.next() == kOwnWork) ++rank.done, ran = true;
    }
    for (const auto& [number, members] : communicators_) {
      const bool all =
          std::all_of(members.begin(), members.end(), [&, n = number](size_t r) REQUIRES(mu_) {
            return ranks_[r].waits() && ranks_[r].next() == n;
          });
      if (!all) continue;
      for (const size_t r : members) ++ranks_[r].done;
      ran = true;
    }
  }
}

}  // namespace parkade::testing
