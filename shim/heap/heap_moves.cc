// What pause/ does with ranges: takes them for a move, hands them back, counts.
#include <algorithm>
#include <span>

#include "shim/heap/heap.h"

namespace parkade::shim {
namespace {

constexpr Bytes kExtentStep = 4096;

Bytes PhysicalBytes(const Range& range) {
  Bytes bytes = 0;
  for (const Piece& piece : range.pieces) bytes += piece.handle != 0 ? piece.bytes : 0;
  return bytes;
}

void SortByTurn(const Wanted& wanted, std::vector<Range*>& ranges) {
  std::stable_sort(ranges.begin(), ranges.end(), [&wanted](const Range* a, const Range* b) {
    return wanted.TurnOf(*a) < wanted.TurnOf(*b);
  });
}

}  // namespace

std::vector<Range*> Heap::BeginEviction(const Wanted& wanted) {
  std::vector<Range*> ranges;
  std::vector<Shown> shown;
  Removed removed;
  {
    MutexLock lock(mu_);
    DetachEmptySlabs(removed);
    for (const auto& [base, range] : ranges_) {
      if (range->state != RangeState::kResident || range->holds != 0) continue;
      if (!wanted.Has(*range)) continue;
      range->state = RangeState::kMoving;
      range->extents = LiveExtents(*range);
      if (range->slab != nullptr) shelves_.at(SlabShelf::KeyOf(*range)).TakeDown(*range);
      SetPlace(*range, wire::Place::kMoving, shown);
      ranges.push_back(range.get());
    }
  }
  ShowPlaces(shown);
  GiveBack(removed);
  virtual_memory_.BeginEviction(wanted, ranges);
  return ranges;
}

std::vector<Range*> Heap::BeginRestore(const Wanted& wanted) {
  std::vector<Range*> ranges;
  std::vector<Shown> shown;
  {
    MutexLock lock(mu_);
    for (const auto& [base, range] : ranges_) {
      if (range->state != RangeState::kOut || !wanted.Has(*range)) continue;
      range->state = RangeState::kMoving;
      SetPlace(*range, wire::Place::kMoving, shown);
      ranges.push_back(range.get());
    }
  }
  ShowPlaces(shown);
  virtual_memory_.BeginRestore(wanted, ranges);
  SortByTurn(wanted, ranges);
  return ranges;
}

std::vector<Range*> Heap::BeginReading(const Wanted& wanted) {
  std::vector<Range*> ranges;
  virtual_memory_.BeginReading(wanted, ranges);
  {
    MutexLock lock(mu_);
    for (const auto& [base, range] : ranges_) {
      if (range->state != RangeState::kOut || !wanted.Has(*range)) continue;
      range->reading = true;
      ranges.push_back(range.get());
    }
  }
  SortByTurn(wanted, ranges);
  return ranges;
}

void Heap::EndReading(std::vector<Range*> ranges) {
  // Before either of the two lets go of some.
  const auto own = std::partition(ranges.begin(), ranges.end(),
                                  [](const Range* range) { return range->adopted != nullptr; });
  std::vector<Shown> shown;
  Removed removed;
  {
    MutexLock lock(mu_);
    for (Range* range : std::span(own, ranges.end())) {
      range->reading = false;
      if (range->doomed) {
        Detach(*range, removed);
      } else if (range->backing != nullptr && range->backing->place() != range->place) {
        SetPlace(*range, range->backing->place(), shown);
      }
    }
  }
  ShowPlaces(shown);
  GiveBack(removed);
  virtual_memory_.EndReading(std::span(ranges.begin(), own));
}

bool Heap::AnyOut() const {
  if (virtual_memory_.AnyOut()) return true;
  MutexLock lock(mu_);
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [](const auto& entry) { return entry.second->state == RangeState::kOut; });
}

std::vector<FilePart> Heap::FilePartsOut() const {
  std::vector<FilePart> parts;
  virtual_memory_.AddFilePartsOut(parts);
  MutexLock lock(mu_);
  for (const auto& [base, range] : ranges_) AddFilePartsOut(*range, parts);
  return parts;
}

void Heap::MovedOut(Range* range, wire::Place place) { Moved(range, RangeState::kOut, place); }

void Heap::MovedIn(Range* range) { Moved(range, RangeState::kResident, wire::Place::kGpu); }

void Heap::Moved(Range* range, RangeState state, wire::Place place) {
  if (range->adopted != nullptr) {
    virtual_memory_.Moved(*range, state, place);
    return;
  }
  const int device = range->device;
  int64_t change = 0;
  std::vector<Shown> shown;
  Removed removed;
  {
    MutexLock lock(mu_);
    range->state = state;
    if (range->doomed) {
      Detach(*range, removed);
    } else {
      const Bytes physical = PhysicalBytes(*range);
      change = int64_t(physical) - int64_t(range->counted);
      range->counted = physical;
      if (range->slab != nullptr && state == RangeState::kResident) {
        shelves_.at(SlabShelf::KeyOf(*range)).PutUp(*range);
      }
      SetPlace(*range, place, shown);
    }
  }
  ledger_.AddResident(device, change);
  ledger_.AddOut(device, -change);
  ShowPlaces(shown);
  GiveBack(removed);
}

std::vector<std::unique_ptr<Backing>> Heap::TakeHostBackings() {
  std::vector<std::unique_ptr<Backing>> taken;
  virtual_memory_.TakeHostBackings(taken);
  MutexLock lock(mu_);
  for (const auto& [base, range] : ranges_) TakeHostBacking(*range, taken);
  return taken;
}

Heap::Totals Heap::Count() const {
  Totals totals{virtual_memory_.ResidentBytes(), virtual_memory_.MovableBytes()};
  MutexLock lock(mu_);
  for (const auto& [base, range] : ranges_) {
    totals.resident += range->counted;
    if (range->state != RangeState::kResident) continue;
    for (const Extent& extent : LiveExtents(*range)) totals.live += extent.bytes;
  }
  return totals;
}

std::vector<Extent> Heap::LiveExtents(const Range& range) const {
  std::vector<Extent> extents;
  const auto end = allocations_.lower_bound(range.base + range.bytes);
  for (auto it = allocations_.lower_bound(range.base); it != end; ++it) {
    const Bytes offset = it->first - range.base;
    const Bytes from = offset / kExtentStep * kExtentStep;
    const Bytes to = std::min(RoundUp(offset + it->second.bytes, kExtentStep), range.bytes);
    if (!extents.empty() && from <= extents.back().offset + extents.back().bytes) {
      extents.back().bytes = to - extents.back().offset;
    } else {
      extents.push_back({from, to - from});
    }
  }
  return extents;
}

void Heap::SetPlace(Range& range, wire::Place place, std::vector<Shown>& shown) {
  range.place = place;
  const auto in_range = ShownIn(range);
  shown.insert(shown.end(), in_range.begin(), in_range.end());
}

std::vector<Heap::Shown> Heap::ShownIn(const Range& range) {
  std::vector<Shown> shown;
  const auto end = allocations_.lower_bound(range.base + range.bytes);
  for (auto it = allocations_.lower_bound(range.base); it != end; ++it) {
    if (it->second.slot) shown.push_back({*it->second.slot, it->second.number, range.place});
  }
  return shown;
}

void Heap::ShowPlaces(const std::vector<Shown>& shown) {
  for (const Shown& s : shown) ledger_.SetPlace(s.slot, s.number, s.place);
}

}  // namespace parkade::shim
