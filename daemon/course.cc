// Sums up what the ledgers of an operation's processes say.
#include "daemon/course.h"

#include <algorithm>

#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {

void Course::Cancel(const std::string& who) {
  const MutexLock lock(mu_);
  if (who_cancelled_.empty()) who_cancelled_ = who;
  cancelled_.store(true, std::memory_order_release);
}

absl::Status Course::Cancellation() const {
  const MutexLock lock(mu_);
  if (!cancelled()) {
    return Fail(absl::StatusCode::kCancelled, "CALLER_GONE",
                "its caller has gone before there was room", {{"operation", origin_.id}});
  }
  return Fail(absl::StatusCode::kCancelled, "CANCELLED", Cat("cancelled by ", who_cancelled_),
              {{"operation", origin_.id}});
}

void Course::Concerns(const ProcessList& processes) {
  std::vector<int> pids;
  std::vector<Party> parties;
  for (const auto& process : processes) {
    pids.push_back(process->pid());
    parties.push_back({process, IsOut(process->State())});
  }
  const MutexLock lock(mu_);
  pids_ = std::move(pids);
  parties_ = std::move(parties);
}

void Course::Moves() {
  const MutexLock lock(mu_);
  moves_since_ns_ = MonotonicNs();
}

void Course::Ends() {
  const MutexLock lock(mu_);
  parties_.clear();  // a process that ends needs to be kept no longer
}

void Course::Waits(std::vector<GpuWait> waits) {
  const MutexLock lock(mu_);
  waits_ = std::move(waits);
}

std::vector<GpuWait> Course::waits() const {
  const MutexLock lock(mu_);
  return waits_;
}

void Course::Report(Outcomes outcomes) {
  const MutexLock lock(mu_);
  report_ = std::move(outcomes);
}

Outcomes Course::report() const {
  const MutexLock lock(mu_);
  return report_;
}

std::vector<int> Course::pids() const {
  const MutexLock lock(mu_);
  return pids_;
}

std::optional<Course::Progress> Course::progress() const {
  std::vector<Party> parties;
  uint64_t since_ns;
  {
    const MutexLock lock(mu_);
    if (moves_since_ns_ == 0 || parties_.empty()) return std::nullopt;
    parties = parties_;
    since_ns = moves_since_ns_;
  }
  Progress sum;
  for (Party& party : parties) {
    const ProcessView view = party.process->View();
    // Until it has begun, the figures there are those of the transition before.
    const bool moves = view.ledger && view.ledger->op_id != 0;
    const bool has_moved = view.ledger && IsOut(view.state) != party.was_out;
    if (moves || has_moved) {
      party.total = std::min<Bytes>(view.ledger->to_move_bytes, kMostClaimed);
      party.done = std::min<Bytes>(view.ledger->moved_bytes, party.total);
    } else {
      party.done = party.total;  // it has come to its end since it was seen
    }
    sum.total += party.total;
    sum.done += party.done;
  }
  {
    const MutexLock lock(mu_);
    if (!parties_.empty()) parties_ = std::move(parties);
  }
  const double seconds = double(MonotonicNs() - since_ns) / 1e9;
  if (seconds > 0) sum.bytes_per_second = double(sum.done) / seconds;
  return sum;
}

}  // namespace parkade::daemon
