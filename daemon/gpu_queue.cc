// A map by priority and ticket.
#include "daemon/gpu_queue.h"

namespace parkade::daemon {

void GpuQueue::Enter(Place& place, ByGpu needed, const std::string& name, uint64_t now_ns) {
  if (place.ticket == 0) {
    place.ticket = ++last_ticket_;
    place.since_ns = now_ns;
  }
  entries_[KeyOf(place)] = {name, std::move(needed), place.since_ns};
}

bool GpuQueue::Leave(const Place& place) { return entries_.erase(KeyOf(place)) != 0; }

GpuQueue::Ahead GpuQueue::AheadOf(const Place& place) const {
  Ahead ahead;
  for (auto at = entries_.begin(); at != entries_.lower_bound(KeyOf(place)); ++at) {
    for (const auto& [uuid, bytes] : at->second.needed) {
      ahead.bytes[uuid] += bytes;
      ++ahead.count[uuid];
    }
  }
  return ahead;
}

std::vector<GpuQueue::Waiter> GpuQueue::On(const std::string& uuid) const {
  std::vector<Waiter> waiters;
  for (const auto& [key, entry] : entries_) {
    const auto at = entry.needed.find(uuid);
    if (at == entry.needed.end()) continue;
    waiters.push_back({entry.name, uint32_t(waiters.size() + 1), int32_t(-key.first), at->second,
                       entry.since_ns});
  }
  return waiters;
}

}  // namespace parkade::daemon
