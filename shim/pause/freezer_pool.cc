// Host memory that is made ready before a pause, and given back after one.
#include "shim/pause/drain.h"
#include "shim/pause/freezer.h"

namespace parkade::shim {

Freezer::Outcome Freezer::Warm(Bytes bytes, const std::atomic<bool>& stop) {
  const auto contexts = drain_.contexts().List();
  const Bytes used = pool_.used();
  std::vector<HostPool::Need> needs;
  // How the application will share itself out over its GPUs nobody knows yet.
  for (const Contexts::Entry& entry : contexts) {
    needs.push_back({entry.context, bytes > used ? (bytes - used) / contexts.size() : 0});
  }
  pool_.Warm(needs, stop);
  Outcome outcome;
  outcome.stats.host_pool_bytes = pool_.held();
  ledger_.SetHostPool(pool_.held());
  return outcome;
}

Bytes Freezer::HostRoom(const std::vector<Range*>& ranges) const {
  Bytes room = release_.host_room() + (pool_.held() - pool_.used());
  for (const Range* range : ranges) {
    const bool kept = range->backing != nullptr && range->backing->in_host_memory();
    if (kept) room += LiveBytes(*range);
  }
  return room;
}

void Freezer::ReleaseHost() {
  heap_.TakeHostBackings();  // destroyed at once
  ReleaseUnusedHost();
}

void Freezer::ReleaseUnusedHost() {
  pool_.Release();
  ledger_.SetHostPool(pool_.held());
}

}  // namespace parkade::shim
