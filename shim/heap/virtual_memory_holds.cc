// Memory that the application maps itself and that must stay where it is.
#include "shim/heap/virtual_memory.h"

namespace parkade::shim {

void VirtualMemory::Hold(Handle handle, const char* why) {
  std::optional<uint32_t> slot;
  uint64_t number = 0;
  {
    MutexLock lock(mu_);
    Memory* memory = Find(handle);
    if (memory == nullptr) return;
    ++memory->holds;
    slot = memory->slot;
    number = memory->number;
  }
  ledger_.AddWarning(why);
  if (slot) ledger_.SetClass(*slot, number, wire::AllocationClass::kHeld);
}

void VirtualMemory::HoldMapped(CUdeviceptr at, size_t bytes, const char* why) {
  std::vector<Handle> handles;
  {
    MutexLock lock(mu_);
    for (const Mapped& place : MappedIn(at, bytes)) handles.push_back(place.memory->handle);
  }
  for (const Handle handle : handles) Hold(handle, why);
}

bool VirtualMemory::HoldIn(CUdeviceptr at, size_t bytes, std::vector<Held>* held) {
  std::vector<std::pair<uint32_t, uint64_t>> shown;  // slot and number
  {
    MutexLock lock(mu_);
    const auto places = MappedIn(at, bytes);
    for (const Mapped& place : places) {
      if (place.memory->state != RangeState::kResident) return false;
    }
    for (const Mapped& place : places) {
      Memory& memory = *place.memory;
      held->push_back({memory.handle, memory.number});
      if (memory.holds++ == 0 && memory.slot) shown.emplace_back(*memory.slot, memory.number);
    }
  }
  for (const auto& [slot, number] : shown) {
    ledger_.SetClass(slot, number, wire::AllocationClass::kHeld);
  }
  return true;
}

void VirtualMemory::LetGo(const Held& held) {
  std::optional<uint32_t> slot;
  {
    MutexLock lock(mu_);
    Memory* memory = Find(held.handle);
    if (memory == nullptr || memory->number != held.number || --memory->holds != 0) return;
    slot = memory->slot;
  }
  if (slot) ledger_.SetClass(*slot, held.number, wire::AllocationClass::kPausable);
}

}  // namespace parkade::shim
