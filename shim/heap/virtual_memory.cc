// The application's calls: handles, mappings, access.
#include "shim/heap/virtual_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/text.h"

namespace parkade::shim {
namespace {

// As the driver: a location that is named again gets what is said now.
void Merge(std::vector<CUmemAccessDesc>& access, std::span<const CUmemAccessDesc> news) {
  for (const CUmemAccessDesc& desc : news) {
    std::erase_if(access,
                  [&](const auto& known) { return SameLocation(known.location, desc.location); });
    if (desc.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) access.push_back(desc);
  }
}

}  // namespace

VirtualMemory::VirtualMemory(const Driver& driver, LedgerWriter& ledger, const Contexts& contexts,
                             std::atomic<uint64_t>& last_number)
    : driver_(driver), ledger_(ledger), contexts_(contexts), last_number_(last_number) {}

bool VirtualMemory::CanAdopt(const CUmemAllocationProp* prop) {
  return prop != nullptr && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         prop->win32HandleMetaData == nullptr &&
         (prop->allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL) == 0;
}

CUresult VirtualMemory::Create(Handle* out, size_t bytes, const CUmemAllocationProp& prop,
                               unsigned long long flags, std::string_view tag) {
  Handle physical = 0;
  if (auto r = driver_.mem_create(&physical, bytes, &prop, flags); r != CUDA_SUCCESS) return r;
  auto memory = std::make_unique<Memory>();
  if (driver_.mem_get_allocation_properties(&memory->described, physical) != CUDA_SUCCESS) {
    memory->described = prop;
  }
  memory->bytes = memory->counted = bytes;
  memory->device = prop.location.id;
  memory->number = ++last_number_;
  CopyText(memory->tag, tag);
  memory->pieces.push_back({0, bytes, physical});
  memory->adopted = std::make_unique<Adopted>(Adopted{prop, flags, {}});
  ledger_.AddResident(memory->device, int64_t(bytes));
  MutexLock lock(mu_);
  memory->handle = *out = kMark << 48 | ++last_handle_;
  memories_.emplace(memory->handle, std::move(memory));
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::Release(Handle handle) {
  Memories gone;
  {
    MutexLock lock(mu_);
    Memory* memory = Find(handle);
    if (memory == nullptr || memory->references == 0) return CUDA_ERROR_INVALID_VALUE;
    --memory->references;
    DropIfUnused(*memory, gone);
  }
  return GiveBack(gone);
}

CUresult VirtualMemory::Map(CUdeviceptr at, size_t bytes, size_t offset, Handle handle,
                            unsigned long long flags) {
  Memory* memory = nullptr;
  Handle physical = handle;
  {
    MutexLock lock(mu_);
    if (IsLogical(handle)) {
      memory = FindSettled(handle);
      if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
      if (memory->state != RangeState::kResident) return kIsOut;
      physical = memory->pieces[0].handle;
    }
    for (const Mapped& other : MappedIn(at, bytes)) {
      if (other.memory->state != RangeState::kResident) return CUDA_ERROR_INVALID_VALUE;
    }
    if (memory != nullptr) ++memory->calls;
  }
  const CUresult r = driver_.mem_map(at, bytes, offset, physical, flags);
  if (memory == nullptr) return r;
  Memories gone;
  {
    MutexLock lock(mu_);
    --memory->calls;
    if (r == CUDA_SUCCESS) {
      AddMapping(*memory, {at, {}, ++last_number_, nullptr});
    } else {
      DropIfUnused(*memory, gone);
    }
  }
  GiveBack(gone);
  return r;
}

CUresult VirtualMemory::Unmap(CUdeviceptr at, size_t bytes) {
  std::vector<std::pair<Memory*, Mapping>> taken;
  bool driver_has_some = false;
  Bytes covered = 0;
  {
    MutexLock lock(mu_);
    bool cut = false, some_out = false;
    const auto places = SettledIn(at, bytes);
    for (const auto& [place, memory] : places) {
      cut |= place < at || bytes - (place - at) < memory->bytes;
      some_out |= memory->state != RangeState::kResident;
      driver_has_some |= memory->state == RangeState::kResident;
    }
    if (cut && some_out) return CUDA_ERROR_INVALID_VALUE;
    // Out of the table before the driver does it, since the place may be used again after that.
    for (const Mapped& place : cut ? std::vector<Mapped>() : places) {
      taken.emplace_back(place.memory, std::move(place.mapping()));
      std::erase_if(place.memory->adopted->mappings,
                    [&place](const Mapping& m) { return m.at == place.at; });
      places_.erase(place.at);
      ++place.memory->calls;
      covered += place.memory->bytes;
    }
  }
  CUresult r = CUDA_SUCCESS;
  // What is out is a hole for the driver, which does not mind holes unless there is nothing else.
  if (taken.empty() || driver_has_some || covered != bytes) r = driver_.mem_unmap(at, bytes);
  if (!taken.empty() && !driver_has_some) r = CUDA_SUCCESS;
  Memories gone;
  std::vector<Handle> changed;
  {
    MutexLock lock(mu_);
    for (auto& [memory, mapping] : taken) {
      --memory->calls;
      changed.push_back(memory->handle);
      if (r != CUDA_SUCCESS) AddMapping(*memory, std::move(mapping));
    }
    for (const Handle handle : changed) {
      if (Memory* memory = Find(handle)) DropIfUnused(*memory, gone);
    }
  }
  GiveBack(gone);
  for (const Handle handle : changed) List(handle);
  return r;
}

CUresult VirtualMemory::SetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access,
                                  size_t count) {
  {
    MutexLock lock(mu_);
    for (const Mapped& place : SettledIn(at, bytes)) {
      if (place.memory->state != RangeState::kResident) return kIsOut;
    }
  }
  const CUresult r = driver_.mem_set_access(at, bytes, access, count);
  if (r != CUDA_SUCCESS) return r;
  std::vector<Handle> changed;
  {
    MutexLock lock(mu_);
    for (const Mapped& place : MappedIn(at, bytes)) {
      Mapping& mapping = place.mapping();
      Merge(mapping.access, {access, count});
      place.memory->may_hold_bytes |= !mapping.access.empty();
      changed.push_back(place.memory->handle);
    }
  }
  for (const Handle handle : changed) List(handle);
  return r;
}

CUresult VirtualMemory::FreeAddresses(CUdeviceptr at, size_t bytes) {
  {
    MutexLock lock(mu_);
    for (const Mapped& place : MappedIn(at, bytes)) {
      if (place.memory->state != RangeState::kResident) return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return driver_.mem_address_free(at, bytes);
}

CUresult VirtualMemory::Resolve(Handle handle, Handle* physical) {
  MutexLock lock(mu_);
  const Memory* memory = FindSettled(handle);
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (memory->state != RangeState::kResident) return kIsOut;
  *physical = memory->pieces[0].handle;
  return CUDA_SUCCESS;
}

void VirtualMemory::AddMapping(Memory& memory, Mapping mapping) {
  places_[mapping.at] = &memory;
  memory.adopted->mappings.push_back(std::move(mapping));
}

VirtualMemory::Memory* VirtualMemory::Find(Handle handle) const {
  const auto it = memories_.find(handle);
  return it == memories_.end() ? nullptr : it->second.get();
}

VirtualMemory::Memory* VirtualMemory::FindSettled(Handle handle) {
  for (;;) {
    Memory* memory = Find(handle);
    if (memory == nullptr || memory->references == 0) return nullptr;
    if (memory->state != RangeState::kMoving) return memory;
    // Like a thread at a closed gate: the move has deadlines of its own.
    settled_.WaitUntil(mu_, Deadline::Never());
  }
}

Mapping& VirtualMemory::Mapped::mapping() const {
  auto& mappings = memory->adopted->mappings;
  return *std::find_if(mappings.begin(), mappings.end(),
                       [this](const Mapping& m) { return m.at == at; });
}

std::optional<VirtualMemory::Mapped> VirtualMemory::MappedAt(CUdeviceptr at) const {
  const auto found = MappedIn(at, 1);
  if (found.empty()) return std::nullopt;
  return found.front();
}

std::vector<VirtualMemory::Mapped> VirtualMemory::MappedIn(CUdeviceptr at, size_t bytes) const {
  std::vector<Mapped> found;
  auto it = places_.upper_bound(at);
  if (it != places_.begin()) {
    const auto before = std::prev(it);
    if (at - before->first < before->second->bytes) it = before;
  }
  for (; it != places_.end() && (it->first <= at || it->first - at < bytes); ++it) {
    found.push_back({it->first, it->second});
  }
  return found;
}

std::vector<VirtualMemory::Mapped> VirtualMemory::SettledIn(CUdeviceptr at, size_t bytes) {
  for (;;) {
    auto found = MappedIn(at, bytes);
    const bool moving = std::any_of(found.begin(), found.end(), [](const Mapped& place) {
      return place.memory->state == RangeState::kMoving;
    });
    if (!moving) return found;
    settled_.WaitUntil(mu_, Deadline::Never());
  }
}

void VirtualMemory::DropIfUnused(Memory& memory, Memories& gone) {
  const size_t ours = memory.window != 0 ? 1 : 0;
  if (memory.references != 0 || memory.calls != 0 || memory.state == RangeState::kMoving ||
      memory.adopted->mappings.size() > ours) {
    return;
  }
  gone.push_back(std::move(memories_.extract(memory.handle).mapped()));
}

CUresult VirtualMemory::GiveBack(const Memories& gone) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& memory : gone) {
    if (memory->slot) {
      ledger_.Remove(*memory->slot);
      ledger_.AddRequested(memory->device, -int64_t(memory->bytes));
    }
    if (memory->window != 0) CloseWindow(*memory, memory->state);
    const Handle physical = memory->pieces[0].handle;
    if (physical != 0) {
      if (auto r = driver_.mem_release(physical); r != CUDA_SUCCESS) result = r;
    }
    ledger_.AddResident(memory->device, -int64_t(memory->counted));
    ledger_.AddOut(memory->device, -int64_t(memory->bytes - memory->counted));
  }
  return result;
}

}  // namespace parkade::shim
