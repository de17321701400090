// Keeps the last rate of each way and tier.
#include "daemon/measured_rates.h"

namespace parkade::daemon {

void MeasuredRates::Note(Way way, const wire::Stats& stats) {
  const Bytes bytes = stats.host_bytes + stats.disk_bytes;
  if (bytes < kLeast || stats.move_ns == 0) return;
  if (stats.host_bytes != 0 && stats.disk_bytes != 0) return;
  const Tier tier = stats.host_bytes != 0 ? Tier::kHost : Tier::kDisk;
  const MutexLock lock(mu_);
  bytes_per_second_[{way, tier}] = double(bytes) * 1e9 / double(stats.move_ns);
}

std::optional<double> MeasuredRates::SecondsFor(Way way, Bytes host, Bytes disk) const {
  const MutexLock lock(mu_);
  double seconds = 0;
  for (const auto& [tier, bytes] : {std::pair(Tier::kHost, host), std::pair(Tier::kDisk, disk)}) {
    if (bytes == 0) continue;
    const auto at = bytes_per_second_.find({way, tier});
    if (at == bytes_per_second_.end()) return std::nullopt;
    seconds += double(bytes) / at->second;
  }
  return seconds;
}

}  // namespace parkade::daemon
