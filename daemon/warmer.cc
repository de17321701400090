// One thread that grants, tells and waits.
#include "daemon/warmer.h"

#include <algorithm>

#include "common/log.h"
#include "daemon/host_memory.h"
#include "daemon/mount_info.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// 100 GiB at the slowest rate that has been seen; a shim that takes longer goes on without us.
constexpr uint64_t kWarmMs = 60'000;
constexpr Bytes kMost = Bytes(1) << 50;  // a claim beyond it means the same

}  // namespace

Warmer::Warmer(HostBudget& budget) : budget_(budget) {
  thread_ = std::thread([this] { Loop(); });
}

Warmer::~Warmer() {
  {
    const MutexLock lock(mu_);
    ending_ = true;
    changed_.NotifyAll();
    if (under_way_ != nullptr) {
      under_way_->Give(0, {absl::CancelledError("the daemon ends"), std::nullopt});
    }
  }
  thread_.join();
}

void Warmer::Want(std::shared_ptr<Process> process, Bytes bytes) {
  const MutexLock lock(mu_);
  std::erase_if(wanted_, [&](const auto& wanted) { return wanted.first == process; });
  wanted_.emplace_back(std::move(process), std::min(bytes, kMost));
  changed_.NotifyAll();
}

void Warmer::Loop() {
  for (;;) {
    std::pair<std::shared_ptr<Process>, Bytes> next;
    {
      const MutexLock lock(mu_);
      while (wanted_.empty() && !ending_) changed_.WaitUntil(mu_, Deadline::InMs(3'600'000));
      if (ending_) return;
      next = std::move(wanted_.front());
      wanted_.pop_front();
    }
    Warm(*next.first, next.second);
    const MutexLock lock(mu_);
    under_way_.reset();
  }
}

bool Warmer::Begin(const std::shared_ptr<Round>& round) {
  const MutexLock lock(mu_);
  under_way_ = round;
  return !ending_;
}

void Warmer::Warm(Process& process, Bytes bytes) {
  const ProcessView view = process.View();
  // Under the driver's checkpoint it would wait in the driver.
  if (!view.ledger || view.deep.state != DeepMark::State::kNone) return;
  const Bytes held = std::min<Bytes>(view.ledger->host_pool_bytes, kMost);
  if (held >= bytes) return;
  Demand demand;
  demand.pid = process.pid();
  demand.by_tag[""] = bytes - held;
  demand.stays = true;
  if (process.identity().visible) demand.groups = MemoryGroupsOf(process.pid(), ReadMounts());
  // Booked until it shows in the measured figures.
  HostBudget::Booking booking(budget_);
  const auto grants = booking.Plan({wire::Policy::kAuto, {}}, std::span(&demand, 1));
  if (!grants.ok() || grants->front().host == 0) return;
  auto warm = wire::Make<wire::Warm>();
  warm.host_bytes = held + grants->front().host;
  const auto round = std::make_shared<Round>(1);
  if (!Begin(round)) return;
  process.Send(warm, round, 0);
  round->WaitAll(Deadline::InMs(kWarmMs));
  const auto answer = round->answers().front();
  if (!answer || !answer->reply) return;
  Log(LogLevel::kInfo, "process %d holds %s of host memory for its pauses, of %s that it wants",
      process.pid(), InUnits(answer->reply->stats.host_pool_bytes).c_str(), InUnits(bytes).c_str());
}

}  // namespace parkade::daemon
