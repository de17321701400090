// Memory that others know by its physical pages, and that so must not move.
#include "shim/heap/heap.h"

namespace parkade::shim {

Heap::Holding Heap::Hold(CUdeviceptr base, uint64_t number, Shared* shared) {
  {
    MutexLock lock(mu_);
    const auto it = allocations_.find(base);
    if (it == allocations_.end() || it->second.number != number) return Holding::kGone;
    Range& range = *it->second.range;
    if (range.state != RangeState::kResident) return Holding::kOut;
    *shared = {range.bytes,  base - range.base, it->second.bytes, range.device,
               range.pieces, range.base,        range.number};
    if (range.holds++ != 0) return Holding::kHeld;
  }
  ShowClass(shared->range, shared->range_number);
  return Holding::kHeld;
}

void Heap::LetGo(CUdeviceptr range, uint64_t range_number) {
  {
    MutexLock lock(mu_);
    const auto it = ranges_.find(range);
    if (it == ranges_.end() || it->second->number != range_number) return;
    if (--it->second->holds != 0) return;
  }
  ShowClass(range, range_number);
}

// Whoever writes last has looked last: threads that hold and let go at once leave what is so.
void Heap::ShowClass(CUdeviceptr range, uint64_t range_number) {
  MutexLock showing(showing_mu_);
  std::vector<Shown> shown;
  auto now = wire::AllocationClass::kPausable;
  {
    MutexLock lock(mu_);
    const auto it = ranges_.find(range);
    if (it == ranges_.end() || it->second->number != range_number) return;
    if (it->second->holds != 0) now = wire::AllocationClass::kHeld;
    shown = ShownIn(*it->second);
  }
  for (const Shown& s : shown) ledger_.SetClass(s.slot, s.number, now);
}

std::optional<Heap::Held> Heap::HoldIn(CUdeviceptr at, Bytes bytes) {
  Held held;
  std::vector<std::pair<CUdeviceptr, uint64_t>> newly;
  {
    MutexLock lock(mu_);
    std::vector<Range*> found;
    auto it = ranges_.upper_bound(at);
    if (InRange(at)) --it;
    for (; it != ranges_.end() && (it->first <= at || it->first - at < bytes); ++it) {
      if (it->second->state != RangeState::kResident) return std::nullopt;
      found.push_back(it->second.get());
    }
    for (Range* range : found) {
      held.ranges.emplace_back(range->base, range->number);
      if (range->holds++ == 0) newly.push_back(held.ranges.back());
    }
  }
  for (const auto& [base, number] : newly) ShowClass(base, number);
  if (virtual_memory_.HoldIn(at, bytes, &held.mapped)) return held;
  LetGo(held);
  return std::nullopt;
}

void Heap::LetGo(const Held& held) {
  for (const auto& [base, number] : held.ranges) LetGo(base, number);
  for (const VirtualMemory::Held& mapped : held.mapped) virtual_memory_.LetGo(mapped);
}

Bytes Heap::HeldBytes() const {
  Bytes bytes = virtual_memory_.HeldBytes();
  MutexLock lock(mu_);
  for (const auto& [base, range] : ranges_) {
    if (range->holds == 0) continue;
    for (const Extent& extent : LiveExtents(*range)) bytes += extent.bytes;
  }
  return bytes;
}

}  // namespace parkade::shim
