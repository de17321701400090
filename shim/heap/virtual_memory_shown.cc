// What is said of the application's own memory: to the application that asks, and in the ledger.
#include <cstring>

#include "common/text.h"
#include "shim/heap/virtual_memory.h"

namespace parkade::shim {
namespace {

template <typename T>
PointerAnswers::Answer Said(T value) {
  PointerAnswers::Answer answer{CUDA_SUCCESS, sizeof value, {}};
  memcpy(answer.value, &value, sizeof value);
  return answer;
}

}  // namespace

std::optional<VirtualMemory::Handle> VirtualMemory::Retain(CUdeviceptr at) {
  MutexLock lock(mu_);
  const auto place = MappedAt(at);
  if (!place) return std::nullopt;
  ++place->memory->references;
  return place->memory->handle;
}

CUresult VirtualMemory::GetProperties(Handle handle, CUmemAllocationProp* out) const {
  MutexLock lock(mu_);
  const Memory* memory = Find(handle);
  if (memory == nullptr || memory->references == 0 || out == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = memory->described;
  return CUDA_SUCCESS;
}

bool VirtualMemory::ThreadHasContext() const {
  CUcontext current = nullptr;
  return driver_.ctx_get_current(&current) == CUDA_SUCCESS && current != nullptr;
}

std::optional<PointerAnswers::Answer> VirtualMemory::Ask(CUdeviceptr at,
                                                         CUpointer_attribute attribute) const {
  MutexLock lock(mu_);
  const auto place = MappedAt(at);
  if (!place) return std::nullopt;
  const Memory& memory = *place->memory;
  const Mapping& mapping = place->mapping();
  // The driver numbers a mapping anew whenever it is made again.
  if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID) return Said(kOurBufferIds | mapping.number);
  if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID) return Said(kOurBufferIds | memory.number);
  if (mapping.answers == nullptr) return std::nullopt;
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) return Said(at);
  if (const auto kept = mapping.answers->Find(attribute)) return kept;
  return PointerAnswers::Answer{CUDA_ERROR_INVALID_VALUE, 0, {}};
}

std::optional<VirtualMemory::Span> VirtualMemory::FindMissing(CUdeviceptr at) const {
  Span span{};
  {
    MutexLock lock(mu_);
    const auto place = MappedAt(at);
    if (!place || place->memory->state == RangeState::kResident) return std::nullopt;
    span = {place->at, place->memory->bytes};
  }
  if (!ThreadHasContext()) return std::nullopt;
  return span;
}

std::optional<unsigned long long> VirtualMemory::MissingAccess(
    CUdeviceptr at, const CUmemLocation& location) const {
  MutexLock lock(mu_);
  const auto place = MappedAt(at);
  if (!place || place->memory->state == RangeState::kResident) return std::nullopt;
  for (const CUmemAccessDesc& desc : place->mapping().access) {
    if (SameLocation(desc.location, location)) return desc.flags;
  }
  return CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

void VirtualMemory::List(Handle handle) {
  wire::LedgerRecord record{};
  std::optional<uint32_t> slot;
  {
    MutexLock lock(mu_);
    Memory* memory = Find(handle);
    if (memory == nullptr || !memory->may_hold_bytes) return;
    CUdeviceptr base = 0;
    for (const Mapping& mapping : memory->adopted->mappings) {
      const bool better = base == 0 || mapping.at == memory->listed;
      if (better && !mapping.access.empty()) base = mapping.at;
    }
    if (base == 0 || base == memory->listed) return;
    // Another thread may be entering it now: the address can be mended by the next call.
    if (memory->listed != 0 && !memory->slot) return;
    memory->listed = record.base = base;
    record.bytes = memory->bytes;
    record.number = memory->number;
    record.device = memory->device;
    record.allocation_class = uint32_t(ClassOf(*memory));
    record.place = uint32_t(memory->place);
    CopyText(record.tag, ReadText(memory->tag));
    slot = memory->slot;
  }
  if (slot) {
    ledger_.SetBase(*slot, record.number, record.base);
    return;
  }
  slot = ledger_.Add(record);
  ledger_.AddRequested(record.device, int64_t(record.bytes));
  std::optional<wire::Place> place;
  auto now = wire::AllocationClass(record.allocation_class);
  {
    MutexLock lock(mu_);
    if (Memory* memory = Find(handle)) {
      memory->slot = slot;
      place = memory->place;
      now = ClassOf(*memory);
    }
  }
  if (!place) {
    ledger_.Remove(*slot);
    ledger_.AddRequested(record.device, -int64_t(record.bytes));
    return;
  }
  // What has changed while it had no slot to be said in.
  if (uint32_t(*place) != record.place) ledger_.SetPlace(*slot, record.number, *place);
  if (uint32_t(now) != record.allocation_class) ShowClass(handle);
}

void VirtualMemory::ShowMoving(const std::vector<Memory*>& moving) {
  struct Shown {
    uint32_t slot;
    uint64_t number;
  };
  std::vector<Shown> shown;
  {
    MutexLock lock(mu_);
    for (const Memory* memory : moving) {
      if (memory->slot) shown.push_back({*memory->slot, memory->number});
    }
  }
  for (const Shown& s : shown) ledger_.SetPlace(s.slot, s.number, wire::Place::kMoving);
}

}  // namespace parkade::shim
