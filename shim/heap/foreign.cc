// Counts foreign memory as it is made and freed; what only the driver knows is in foreign_pools.cc.
#include "shim/heap/foreign.h"

namespace parkade::shim {

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

}  // namespace parkade::shim
