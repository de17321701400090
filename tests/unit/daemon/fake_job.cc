// Runs launches in order.
#include "tests/unit/daemon/fake_job.h"

#include <algorithm>
#include <utility>

namespace parkade::testing {

size_t FakeJob::Rank::LaunchedOn(int communicator) const {
  size_t count = 0;
  for (size_t i = 0; i < launched; ++i) count += program[i % program.size()] == communicator;
  return count;
}

FakeJob::FakeJob(std::vector<Program> programs, std::map<int, std::vector<size_t>> communicators,
                 Streams streams)
    : communicators_(std::move(communicators)), streams_(streams) {
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
  if (streams_ == Streams::kOne) return !ranks_[rank].waits();
  for (const auto& [number, members] : communicators_) {
    if (std::find(members.begin(), members.end(), rank) == members.end()) continue;
    const size_t mine = ranks_[rank].LaunchedOn(number);
    for (const size_t other : members) {
      if (ranks_[other].LaunchedOn(number) < mine) return false;
    }
  }
  return true;
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
