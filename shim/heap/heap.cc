// Allocation, free and look-up; what pause/ does with ranges is in heap_moves.cc.
#include "shim/heap/heap.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/text.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {

Heap::Heap(const Driver& driver, LedgerWriter& ledger, const Contexts& contexts)
    : driver_(driver),
      ledger_(ledger),
      wait_(driver),
      memory_(driver),
      virtual_memory_(driver, ledger, contexts, last_number_) {}

Heap::~Heap() {
  Removed removed;
  {
    MutexLock lock(mu_);
    while (!ranges_.empty()) Detach(*ranges_.begin()->second, removed);
    for (const auto& [base, a] : allocations_) {
      removed.allocations.push_back({a.slot, a.range->device, a.bytes});
    }
    allocations_.clear();
  }
  GiveBack(removed);
  wait_.Clear();
}

CUresult Heap::Allocate(CUdeviceptr* out, size_t bytes, std::string_view tag, Saving saving) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SlabShelf::Key key{};
  CUresult r = driver_.ctx_get_current(&key.context);
  if (r != CUDA_SUCCESS) return r;
  if (key.context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (r = driver_.ctx_get_device(&key.device); r != CUDA_SUCCESS) return r;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  DeviceMemory::Device device;
  if (r = memory_.Describe(key.device, &device); r != CUDA_SUCCESS) return r;
  // Before anything is rounded up, which could overflow, or made for nothing.
  if (bytes > device.total) return CUDA_ERROR_OUT_OF_MEMORY;
  std::copy_n(tag.data(), std::min(tag.size(), key.tag.size() - 1), key.tag.data());
  key.size_class = saving == Saving::kNone ? SizeClassFor(bytes) : nullptr;

  wait_.Prepare(key.context);
  auto record = TakeFromSlab(key, bytes);
  if (!record) {
    const uint64_t peers = memory_.peer_changes();
    std::unique_ptr<Range> range;
    if (r = MakeRange(key, device, bytes, saving, &range); r != CUDA_SUCCESS) return r;
    const Bytes range_bytes = range->bytes;
    record = AddRange(std::move(range), device, bytes);
    if (memory_.peer_changes() != peers) OpenAgain(record->base, range_bytes, key.device);
  }
  Publish(*record);
  *out = record->base;
  return CUDA_SUCCESS;
}

std::optional<wire::LedgerRecord> Heap::TakeFromSlab(const SlabShelf::Key& key, Bytes bytes) {
  if (key.size_class == nullptr) return std::nullopt;
  MutexLock lock(mu_);
  const auto shelf = shelves_.find(key);
  if (shelf == shelves_.end()) return std::nullopt;
  const auto block = shelf->second.Take(bytes);
  if (!block) return std::nullopt;
  return Enter(block->range->base + block->offset, *block->range, bytes);
}

CUresult Heap::MakeRange(const SlabShelf::Key& key, const DeviceMemory::Device& device, Bytes bytes,
                         Saving saving, std::unique_ptr<Range>* out) {
  const Bytes exact = RoundUp(bytes, device.granularity);
  Bytes slab_bytes = 0;
  if (key.size_class != nullptr) {
    MutexLock lock(mu_);
    const auto shelf = shelves_.find(key);
    slab_bytes = shelf == shelves_.end() ? key.size_class->first_slab
                                         : shelf->second.NextSlabBytes(*key.size_class);
    slab_bytes = RoundUp(slab_bytes, device.granularity);
  }
  auto range = std::make_unique<Range>();
  range->device = key.device;
  range->context = key.context;
  CopyText(range->tag, key.tag.data());
  range->saving = saving;
  range->bytes = std::max(slab_bytes, exact);
  CUresult r = memory_.Build(*range);
  if (r == CUDA_ERROR_OUT_OF_MEMORY && (Trim() != 0 || range->bytes != exact)) {
    range->bytes = exact;
    r = memory_.Build(*range);
  }
  if (r != CUDA_SUCCESS) return r;
  if (range->bytes == slab_bytes) {
    range->slab = std::make_unique<Slab>(slab_bytes, *key.size_class);
  }
  *out = std::move(range);
  return CUDA_SUCCESS;
}

wire::LedgerRecord Heap::AddRange(std::unique_ptr<Range> made, const DeviceMemory::Device& device,
                                  Bytes bytes) {
  Range& range = *made;
  ledger_.SetDevice(range.device, device.uuid);
  ledger_.AddResident(range.device, int64_t(range.bytes));
  MutexLock lock(mu_);
  range.counted = range.bytes;
  range.number = ++last_number_;
  ranges_.emplace(range.base, std::move(made));
  if (range.slab != nullptr) {
    range.slab->Take(bytes);  // a fresh slab: its front
    SlabShelf& shelf = shelves_[SlabShelf::KeyOf(range)];
    shelf.CountSlab(range.bytes);
    shelf.PutUp(range);
  }
  return Enter(range.base, range, bytes);
}

wire::LedgerRecord Heap::Enter(CUdeviceptr base, Range& range, Bytes bytes) {
  wire::LedgerRecord record{};
  record.base = base;
  record.bytes = bytes;
  record.number = ++last_number_;
  record.device = range.device;
  record.allocation_class =
      uint32_t(range.holds == 0 ? wire::AllocationClass::kPausable : wire::AllocationClass::kHeld);
  record.place = uint32_t(range.place);
  CopyText(record.tag, ReadText(range.tag));
  allocations_.emplace(base, Allocation{&range, bytes, record.number, {}});
  ++range.live;
  return record;
}

void Heap::Publish(const wire::LedgerRecord& record) {
  const uint32_t slot = ledger_.Add(record);
  ledger_.AddRequested(record.device, int64_t(record.bytes));
  std::optional<wire::Place> place;  // none: freed meanwhile, together with its context
  bool held = false;
  CUdeviceptr range = 0;
  uint64_t range_number = 0;
  {
    MutexLock lock(mu_);
    const auto it = allocations_.find(record.base);
    if (it != allocations_.end() && it->second.number == record.number) {
      it->second.slot = slot;
      place = it->second.range->place;
      held = it->second.range->holds != 0;
      range = it->second.range->base;
      range_number = it->second.range->number;
    }
  }
  if (!place) {
    ledger_.Remove(slot);
    ledger_.AddRequested(record.device, -int64_t(record.bytes));
    return;
  }
  // What has changed while it had no slot to be said in.
  if (uint32_t(*place) != record.place) ledger_.SetPlace(slot, record.number, *place);
  const auto now = held ? wire::AllocationClass::kHeld : wire::AllocationClass::kPausable;
  if (uint32_t(now) != record.allocation_class) ShowClass(range, range_number);
}

bool Heap::Free(CUdeviceptr ptr, CUresult* result) {
  std::vector<Claim> claims;
  CUcontext context = nullptr;
  bool resident = false;
  {
    MutexLock lock(mu_);
    const auto it = allocations_.find(ptr);
    if (it == allocations_.end() && !InRange(ptr)) return false;
    if (it == allocations_.end() || it->second.freeing) {
      *result = CUDA_ERROR_INVALID_VALUE;
      return true;
    }
    it->second.freeing = true;
    context = it->second.range->context;
    // What is out or moving has no work on it: the GPU was drained before it moved.
    resident = it->second.range->state == RangeState::kResident;
    if (resident) claims = std::exchange(deferred_[context], {});
    claims.push_back({ptr, it->second.number});
  }
  const CUresult r = resident ? wait_.Run(context) : CUDA_SUCCESS;
  Removed removed;
  {
    MutexLock lock(mu_);
    if (r == CUDA_SUCCESS) {
      for (const Claim& claim : claims) {
        const auto it = allocations_.find(claim.ptr);
        // Gone, or another one, when the context was forgotten during the wait.
        if (it != allocations_.end() && it->second.number == claim.number) Drop(it, removed);
      }
    } else {
      auto& deferred = deferred_[context];
      deferred.insert(deferred.end(), claims.begin(), claims.end());
    }
  }
  GiveBack(removed);
  *result = r == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : r;
  return true;
}

std::optional<AllocationView> Heap::Find(CUdeviceptr ptr) const {
  MutexLock lock(mu_);
  auto it = allocations_.upper_bound(ptr);
  if (it == allocations_.begin()) return std::nullopt;
  const auto& [base, a] = *--it;
  if (ptr - base >= a.bytes) return std::nullopt;
  return AllocationView{base,
                        a.bytes,
                        a.range->device,
                        a.range->context,
                        a.number,
                        a.range->state == RangeState::kResident,
                        a.sync_memops};
}

void Heap::SetSyncMemops(CUdeviceptr base, uint64_t number, bool on) {
  MutexLock lock(mu_);
  const auto it = allocations_.find(base);
  if (it != allocations_.end() && it->second.number == number) it->second.sync_memops = on;
}

bool Heap::Owns(CUdeviceptr ptr, Bytes bytes) const {
  MutexLock lock(mu_);
  const auto behind = ranges_.upper_bound(ptr);
  return InRange(ptr) || (behind != ranges_.end() && behind->first - ptr < bytes);
}

void Heap::ForgetContext(CUcontext context) {
  wait_.Forget(context);
  Removed removed;
  {
    MutexLock lock(mu_);
    deferred_.erase(context);
    std::vector<Range*> gone;
    for (const auto& [base, range] : ranges_) {
      if (range->context == context) gone.push_back(range.get());
    }
    for (Range* range : gone) {
      const auto end = allocations_.lower_bound(range->base + range->bytes);
      for (auto it = allocations_.lower_bound(range->base); it != end;) {
        removed.allocations.push_back({it->second.slot, range->device, it->second.bytes});
        it = allocations_.erase(it);
      }
      range->live = 0;
      if (range->in_use()) {
        range->doomed = true;
      } else {
        Detach(*range, removed);
      }
    }
  }
  GiveBack(removed);
}

Bytes Heap::Trim() {
  Removed removed;
  {
    MutexLock lock(mu_);
    DetachEmptySlabs(removed);
  }
  return GiveBack(removed);
}

bool Heap::InRange(CUdeviceptr ptr) const {
  auto it = ranges_.upper_bound(ptr);
  return it != ranges_.begin() && ptr - (--it)->first < it->second->bytes;
}

void Heap::Drop(Table::iterator it, Removed& removed) {
  Range& range = *it->second.range;
  const Bytes offset = it->first - range.base, bytes = it->second.bytes;
  removed.allocations.push_back({it->second.slot, range.device, bytes});
  allocations_.erase(it);
  --range.live;
  const bool resident = range.state == RangeState::kResident;
  if (range.slab != nullptr && resident) {
    Range* surplus = shelves_.at(SlabShelf::KeyOf(range)).Give(range, offset, bytes);
    if (surplus != nullptr) Detach(*surplus, removed);
    return;
  }
  if (range.slab != nullptr) range.slab->Give(offset, bytes);
  if (range.live != 0) return;
  if (range.in_use()) {
    range.doomed = true;  // whoever uses it finds out in MovedOut, MovedIn or EndReading
  } else {
    Detach(range, removed);
  }
}

void Heap::Detach(Range& range, Removed& removed) {
  if (range.slab != nullptr) {
    const auto shelf = shelves_.find(SlabShelf::KeyOf(range));
    shelf->second.TakeDown(range);
    shelf->second.UncountSlab(range.bytes);
    if (shelf->second.unused()) shelves_.erase(shelf);
  }
  removed.ranges.push_back(std::move(ranges_.extract(range.base).mapped()));
}

void Heap::DetachEmptySlabs(Removed& removed) {
  std::vector<Range*> empty;
  for (const auto& [key, shelf] : shelves_) {
    if (shelf.empty() != nullptr) empty.push_back(shelf.empty());
  }
  for (Range* range : empty) Detach(*range, removed);
}

Bytes Heap::GiveBack(const Removed& removed) {
  for (const Removed::Entry& entry : removed.allocations) {
    if (!entry.slot) continue;  // its Allocate has not published it yet, and will not
    ledger_.Remove(*entry.slot);
    ledger_.AddRequested(entry.device, -int64_t(entry.bytes));
  }
  Bytes bytes = 0;
  for (const auto& range : removed.ranges) {
    memory_.Destroy(*range);
    ledger_.AddResident(range->device, -int64_t(range->counted));
    ledger_.AddOut(range->device, -int64_t(range->bytes - range->counted));
    bytes += range->counted;
  }
  return bytes;
}

}  // namespace parkade::shim
