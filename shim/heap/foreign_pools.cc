// Pools and memory of graphs: the driver is asked what they hold, and to give back what they do not
// use.
#include "common/deadline.h"
#include "shim/cuda/scoped_context.h"
#include "shim/heap/foreign.h"

namespace parkade::shim {
namespace {

using wire::ForeignKind;

constexpr uint64_t kMeasureEveryNs = 1'000'000;

}  // namespace

void Foreign::AddPool(CUmemoryPool pool, int device) {
  MutexLock lock(mu_);
  pools_[pool] = device;
}

void Foreign::UsesPoolOf(int device, bool capturing) {
  {
    MutexLock lock(mu_);
    pool_devices_.insert(device);
    if (capturing || driver_.device_get_mem_pool == nullptr ||
        !asked_devices_.insert(device).second) {
      return;
    }
  }
  ScopedRelaxedCapture relaxed(driver_);  // another thread may capture
  CUmemoryPool now = nullptr;
  if (driver_.device_get_mem_pool(&now, device) != CUDA_SUCCESS) return;
  if (now != DefaultPool(device)) AddPool(now, device);
}

bool Foreign::HasPool(CUmemoryPool pool) const {
  MutexLock lock(mu_);
  return pools_.contains(pool);
}

std::optional<int> Foreign::TakePool(CUmemoryPool pool) {
  MutexLock asking(asking_mu_);  // nobody asks about it any more
  MutexLock lock(mu_);
  const auto found = pools_.find(pool);
  if (found == pools_.end()) return std::nullopt;
  return pools_.extract(found).mapped();
}

void Foreign::AddGraphMemory(int device) {
  MutexLock lock(mu_);
  graph_devices_.insert(device);
  has_graph_memory_.store(true, std::memory_order_relaxed);
}

void Foreign::DeviceMayEnd(int device) {
  MutexLock asking(asking_mu_);
  MutexLock lock(mu_);
  ending_.insert(device);
}

void Foreign::DeviceStays(int device) {
  MutexLock lock(mu_);
  ending_.erase(device);
}

void Foreign::DeviceEnded(int device) {
  MutexLock asking(asking_mu_);
  {
    MutexLock lock(mu_);
    // Whether a pool outlives the reset of its device the driver does not say: one that does is
    // known again as soon as memory is taken from it.
    std::erase_if(pools_, [device](const auto& pool) { return pool.second == device; });
    pool_devices_.erase(device);
    asked_devices_.erase(device);
    graph_devices_.erase(device);
    ending_.erase(device);
  }
  SetMeasured(ForeignKind::kPool, device, 0);
  SetMeasured(ForeignKind::kGraph, device, 0);
}

bool Foreign::IsTime(Measure when, std::atomic<uint64_t>& last_ns) {
  const uint64_t now = MonotonicNs();
  if (when == Measure::kSometimes &&
      now - last_ns.load(std::memory_order_relaxed) < kMeasureEveryNs) {
    return false;
  }
  last_ns.store(now, std::memory_order_relaxed);
  return true;
}

std::map<CUmemoryPool, int> Foreign::AskablePools() const {
  std::map<CUmemoryPool, int> pools;
  std::set<int> devices;
  {
    MutexLock lock(mu_);
    for (const auto& [pool, device] : pools_) {
      if (!ending_.contains(device)) pools.emplace(pool, device);
    }
    for (const int device : pool_devices_) {
      if (!ending_.contains(device)) devices.insert(device);
    }
  }
  for (const int device : devices) {
    if (const CUmemoryPool pool = DefaultPool(device)) pools.emplace(pool, device);
  }
  return pools;
}

CUmemoryPool Foreign::DefaultPool(int device) const {
  CUmemoryPool pool = nullptr;
  const auto ask = driver_.device_get_default_mem_pool;
  return ask != nullptr && ask(&pool, device) == CUDA_SUCCESS ? pool : nullptr;
}

bool Foreign::IsEnding(int device) const {
  MutexLock lock(mu_);
  return ending_.contains(device);
}

void Foreign::MeasurePools(Measure when) {
  if (!IsTime(when, pools_measured_ns_)) return;
  // A capture may begin on another thread at any moment.
  ScopedRelaxedCapture relaxed(driver_);
  MutexLock asking(asking_mu_);
  MeasurePoolsLocked();
}

void Foreign::MeasurePoolsLocked() {
  if (driver_.mem_pool_get_attribute == nullptr) return;
  std::map<int, Bytes> reserved;
  {
    MutexLock lock(mu_);
    // Devices whose pools are gone hold nothing any more.
    for (const auto& [key, bytes] : measured_) {
      if (key.first == ForeignKind::kPool && !ending_.contains(key.second))
        reserved[key.second] = 0;
    }
  }
  for (const auto& [pool, device] : AskablePools()) {
    cuuint64_t bytes = 0;
    if (driver_.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes) ==
        CUDA_SUCCESS) {
      reserved[device] += bytes;
    }
  }
  for (const auto& [device, bytes] : reserved) SetMeasured(ForeignKind::kPool, device, bytes);
}

CUresult Foreign::TrimPools() {
  ScopedRelaxedCapture relaxed(driver_);
  MutexLock asking(asking_mu_);
  CUresult first = CUDA_SUCCESS;
  for (const auto& [pool, device] : AskablePools()) {
    if (driver_.mem_pool_trim_to == nullptr) break;
    const CUresult r = driver_.mem_pool_trim_to(pool, 0);
    if (first == CUDA_SUCCESS) first = r;
  }
  MeasurePoolsLocked();
  return first;
}

void Foreign::MeasureGraphs(Measure when) {
  if (!IsTime(when, graphs_measured_ns_)) return;
  std::set<int> devices;
  {
    MutexLock lock(mu_);
    devices = graph_devices_;
  }
  ScopedRelaxedCapture relaxed(driver_);
  MutexLock asking(asking_mu_);
  for (const int device : devices) MeasureGraph(device);
}

Bytes Foreign::MeasureGraph(int device) {
  cuuint64_t bytes = 0;
  if (IsEnding(device) || driver_.device_get_graph_mem_attribute == nullptr ||
      driver_.device_get_graph_mem_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                             &bytes) != CUDA_SUCCESS) {
    return 0;
  }
  SetMeasured(ForeignKind::kGraph, device, bytes);
  return bytes;
}

CUresult Foreign::TrimGraphs(int device) {
  ScopedRelaxedCapture relaxed(driver_);
  MutexLock asking(asking_mu_);
  if (MeasureGraph(device) == 0 || driver_.device_graph_mem_trim == nullptr) return CUDA_SUCCESS;
  AddGraphMemory(device);  // of nodes that no hook has seen made
  const CUresult r = driver_.device_graph_mem_trim(device);
  MeasureGraph(device);
  return r;
}

void Foreign::SetMeasured(ForeignKind kind, int device, Bytes bytes) {
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
