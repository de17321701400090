// Memory that the application maps itself and that must stay where it is.
#include "shim/heap/virtual_memory.h"

namespace parkade::shim {

void VirtualMemory::Hold(Handle handle, const char* why) {
  {
    MutexLock lock(mu_);
    Memory* memory = Find(handle);
    if (memory == nullptr) return;
    ++memory->holds;
  }
  ledger_.AddWarning(why);
  ShowClass(handle);
}

// Whoever writes last has looked last: threads that hold and let go at once leave what is so.
void VirtualMemory::ShowClass(Handle handle) {
  MutexLock showing(showing_mu_);
  std::optional<uint32_t> slot;
  uint64_t number = 0;
  auto now = wire::AllocationClass::kPausable;
  {
    MutexLock lock(mu_);
    const Memory* memory = Find(handle);
    if (memory == nullptr) return;
    slot = memory->slot;
    number = memory->number;
    now = ClassOf(*memory);
  }
  if (slot) ledger_.SetClass(*slot, number, now);
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
  std::vector<Handle> newly;
  {
    MutexLock lock(mu_);
    const auto places = MappedIn(at, bytes);
    for (const Mapped& place : places) {
      if (place.memory->state != RangeState::kResident) return false;
    }
    for (const Mapped& place : places) {
      Memory& memory = *place.memory;
      held->push_back({memory.handle, memory.number});
      if (memory.holds++ == 0) newly.push_back(memory.handle);
    }
  }
  for (const Handle handle : newly) ShowClass(handle);
  return true;
}

void VirtualMemory::LetGo(const Held& held) {
  {
    MutexLock lock(mu_);
    Memory* memory = Find(held.handle);
    if (memory == nullptr || memory->number != held.number || --memory->holds != 0) return;
  }
  ShowClass(held.handle);
}

}  // namespace parkade::shim
