// What the heap says of memory that the program pauses itself.
#include <algorithm>

#include "shim/heap/heap.h"

namespace parkade::shim {

Heap::Saved Heap::CountSaved(const Wanted& wanted) const {
  Saved saved;
  MutexLock lock(mu_);
  for (const auto& [base, range] : ranges_) {
    if (range->saving == Saving::kNone || !wanted.Has(*range)) continue;
    if (range->state != RangeState::kResident) continue;
    Bytes live = 0;
    for (const Extent& extent : LiveExtents(*range)) live += extent.bytes;
    if (range->holds != 0) {
      saved.held += live;
      continue;
    }
    saved.any = true;
    if (range->saving == Saving::kDisk) saved.disk += live;
  }
  return saved;
}

std::vector<int> Heap::DevicesOfSaved(const Wanted& wanted) const {
  std::vector<int> devices;
  {
    MutexLock lock(mu_);
    for (const auto& [base, range] : ranges_) {
      if (range->saving == Saving::kNone || !wanted.Has(*range)) continue;
      devices.push_back(range->device);
    }
  }
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

const char* Heap::SavedCopy(CUdeviceptr at, Bytes bytes) const {
  MutexLock lock(mu_);
  auto it = allocations_.upper_bound(at);
  if (it == allocations_.begin()) return nullptr;
  const auto& [base, a] = *--it;
  const Bytes offset = at - base;
  if (offset >= a.bytes || bytes > a.bytes - offset) return nullptr;
  const Range& range = *a.range;
  if (!IsToHost(range.saving) || range.state == RangeState::kMoving) return nullptr;
  const char* copy = range.backing == nullptr ? nullptr : range.backing->in_one_piece();
  return copy == nullptr ? nullptr : copy + offset;
}

}  // namespace parkade::shim
