// Counts foreign memory, and asks the driver for what only it knows.
#include "shim/heap/foreign.h"

#include "common/deadline.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {
namespace {

constexpr uint64_t kMeasureEveryNs = 1'000'000;

}  // namespace

Foreign::Foreign(const Driver& driver, LedgerWriter& ledger) : driver_(driver), ledger_(ledger) {}

void Foreign::Add(wire::ForeignKind kind, uint64_t key, Bytes bytes) {
  Entry entry{kind, 0, nullptr, bytes};
  CUdevice device = 0;
  if (driver_.ctx_get_device(&device) != CUDA_SUCCESS) return;
  entry.device = device;
  driver_.ctx_get_current(&entry.context);
  Enter(key, entry);
}

void Foreign::AddOn(int device, wire::ForeignKind kind, uint64_t key, Bytes bytes) {
  Enter(key, {kind, device, nullptr, bytes});
}

void Foreign::Enter(uint64_t key, const Entry& entry) {
  // Of an end that was not seen.
  (void)Take(key);
  {
    MutexLock lock(mu_);
    entries_[key] = entry;
  }
  ledger_.AddForeign(entry.device, entry.kind, int64_t(entry.bytes));
}

void Foreign::RemoveIn(uint64_t at, Bytes bytes) {
  std::vector<Entry> gone;
  {
    MutexLock lock(mu_);
    auto it = entries_.lower_bound(at);
    while (it != entries_.end() && it->first - at < bytes) {
      gone.push_back(it->second);
      it = entries_.erase(it);
    }
  }
  for (const Entry& e : gone) ledger_.AddForeign(e.device, e.kind, -int64_t(e.bytes));
}

std::optional<Foreign::Entry> Foreign::Take(uint64_t key) {
  Entry entry;
  {
    MutexLock lock(mu_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return std::nullopt;
    entry = found->second;
    entries_.erase(found);
  }
  ledger_.AddForeign(entry.device, entry.kind, -int64_t(entry.bytes));
  return entry;
}

void Foreign::ForgetContext(CUcontext context) {
  std::vector<Entry> gone;
  Bytes unpinned = 0;
  {
    MutexLock lock(mu_);
    for (auto it = pinned_.begin(); it != pinned_.end();) {
      if (it->second.context != context) {
        ++it;
        continue;
      }
      unpinned += it->second.bytes;
      it = pinned_.erase(it);
    }
    for (auto it = entries_.begin(); it != entries_.end();) {
      if (it->second.context != context) {
        ++it;
        continue;
      }
      gone.push_back(it->second);
      it = entries_.erase(it);
    }
  }
  for (const Entry& e : gone) ledger_.AddForeign(e.device, e.kind, -int64_t(e.bytes));
  ledger_.AddPinned(-int64_t(unpinned));
}

void Foreign::Pin(const void* host, Bytes bytes) {
  Pinned pinned{nullptr, bytes};
  driver_.ctx_get_current(&pinned.context);
  PutBack(host, pinned);
}

void Foreign::PutBack(const void* host, const Pinned& pinned) {
  Bytes before = 0;
  {
    MutexLock lock(mu_);
    Pinned& known = pinned_[host];
    before = known.bytes;
    known = pinned;
  }
  ledger_.AddPinned(int64_t(pinned.bytes) - int64_t(before));
}

std::optional<Foreign::Pinned> Foreign::Unpin(const void* host) {
  Pinned pinned;
  {
    MutexLock lock(mu_);
    const auto found = pinned_.find(host);
    if (found == pinned_.end()) return std::nullopt;
    pinned = found->second;
    pinned_.erase(found);
  }
  ledger_.AddPinned(-int64_t(pinned.bytes));
  return pinned;
}

std::vector<Foreign::Managed> Foreign::ListManaged() const {
  std::vector<Managed> managed;
  MutexLock lock(mu_);
  for (const auto& [key, e] : entries_) {
    if (e.kind == wire::ForeignKind::kManaged) managed.push_back({key, e.bytes, e.context});
  }
  return managed;
}

void Foreign::AddPool(CUmemoryPool pool, int device) {
  MutexLock lock(mu_);
  pools_[pool] = device;
}

std::optional<int> Foreign::TakePool(CUmemoryPool pool) {
  MutexLock asking(asking_mu_);  // nobody asks it any more
  MutexLock lock(mu_);
  const auto found = pools_.find(pool);
  if (found == pools_.end()) return std::nullopt;
  return pools_.extract(found).mapped();
}

void Foreign::UsesPools(int device) {
  MutexLock lock(mu_);
  pool_users_.insert(device);
}

std::vector<Foreign::Pool> Foreign::ListPools() const {
  std::vector<Pool> pools;
  std::set<int> users;
  {
    MutexLock lock(mu_);
    users = pool_users_;
    for (const auto& [pool, device] : pools_) pools.push_back({pool, device});
  }
  for (const int device : users) {
    CUmemoryPool pool = nullptr;
    if (driver_.device_get_default_mem_pool != nullptr &&
        driver_.device_get_default_mem_pool(&pool, device) == CUDA_SUCCESS) {
      pools.push_back({pool, device});
    }
  }
  return pools;
}

void Foreign::MeasurePools(Measure when) {
  const uint64_t now = MonotonicNs();
  if (when == Measure::kSometimes &&
      now - measured_ns_.load(std::memory_order_relaxed) < kMeasureEveryNs) {
    return;
  }
  measured_ns_.store(now, std::memory_order_relaxed);
  if (driver_.mem_pool_get_attribute == nullptr) return;
  std::map<int, Bytes> reserved;
  {
    MutexLock lock(mu_);
    // Devices whose pools are gone hold nothing any more.
    for (const auto& [key, bytes] : measured_) {
      if (key.first == wire::ForeignKind::kPool) reserved[key.second] = 0;
    }
  }
  {
    // A capture may begin on another thread at any moment.
    ScopedRelaxedCapture relaxed(driver_);
    MutexLock asking(asking_mu_);
    for (const Pool& p : ListPools()) {
      cuuint64_t bytes = 0;
      if (driver_.mem_pool_get_attribute(p.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes) ==
          CUDA_SUCCESS) {
        reserved[p.device] += bytes;
      }
    }
  }
  for (const auto& [device, bytes] : reserved) {
    SetMeasured(wire::ForeignKind::kPool, device, bytes);
  }
}

Bytes Foreign::MeasureGraphs(int device) {
  cuuint64_t bytes = 0;
  if (driver_.device_get_graph_mem_attribute == nullptr ||
      driver_.device_get_graph_mem_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                             &bytes) != CUDA_SUCCESS) {
    return 0;
  }
  SetMeasured(wire::ForeignKind::kGraph, device, bytes);
  return bytes;
}

void Foreign::SetMeasured(wire::ForeignKind kind, int device, Bytes bytes) {
  Bytes before = 0;
  {
    MutexLock lock(mu_);
    Bytes& known = measured_[{kind, device}];
    before = known;
    known = bytes;
  }
  ledger_.AddForeign(device, kind, int64_t(bytes) - int64_t(before));
}

}  // namespace parkade::shim
