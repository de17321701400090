// What pause/ does with the application's own memory, by way of Heap: begin a move, end it, count.
#include <algorithm>
#include <utility>

#include "shim/cuda/scoped_context.h"
#include "shim/heap/virtual_memory.h"

namespace parkade::shim {
namespace {

CUcontext ContextOn(const std::vector<Contexts::Entry>& contexts, int device) {
  for (const Contexts::Entry& entry : contexts) {
    if (entry.device == device) return entry.context;
  }
  return nullptr;
}

CUmemAccessDesc FullAccess(int device) {
  return {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

// A place through which the memory's own device can read and write it, or 0.
CUdeviceptr PlaceToCopy(const Range& range) {
  for (const Mapping& mapping : range.adopted->mappings) {
    for (const CUmemAccessDesc& desc : mapping.access) {
      if (desc.location.type == CU_MEM_LOCATION_TYPE_DEVICE && desc.location.id == range.device &&
          desc.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
        return mapping.at;
      }
    }
  }
  return 0;
}

}  // namespace

void VirtualMemory::BeginEviction(const Wanted& wanted, std::vector<Range*>& ranges) {
  const auto contexts = contexts_.List();
  std::vector<Memory*> moving;
  {
    MutexLock lock(mu_);
    for (const auto& [handle, memory] : memories_) {
      if (memory->state != RangeState::kResident || memory->holds != 0) continue;
      if (!wanted.Has(*memory)) continue;
      // Memory belongs to its device; any context there can copy it.
      memory->context = ContextOn(contexts, memory->device);
      memory->left_behind = memory->context == nullptr;
      if (memory->left_behind) continue;
      memory->state = RangeState::kMoving;
      memory->place = wire::Place::kMoving;
      memory->base = PlaceToCopy(*memory);
      memory->extents.clear();
      if (memory->may_hold_bytes) memory->extents.push_back({0, memory->bytes});
      moving.push_back(memory.get());
    }
  }
  ShowMoving(moving);
  for (Memory* memory : moving) {
    if (memory->extents.empty() || memory->base != 0 || OpenWindow(*memory, Window::kMapped)) {
      KeepAnswers(*memory);
      ranges.push_back(memory);
      continue;
    }
    {
      MutexLock lock(mu_);
      memory->left_behind = true;
    }
    Moved(*memory, RangeState::kResident, wire::Place::kGpu);
  }
}

void VirtualMemory::BeginRestore(const Wanted& wanted, std::vector<Range*>& ranges) {
  const auto contexts = contexts_.List();
  std::vector<Memory*> moving;
  {
    MutexLock lock(mu_);
    for (const auto& [handle, memory] : memories_) {
      if (memory->state != RangeState::kOut || !wanted.Has(*memory)) continue;
      memory->state = RangeState::kMoving;
      memory->place = wire::Place::kMoving;
      memory->context = ContextOn(contexts, memory->device);
      memory->base = PlaceToCopy(*memory);
      moving.push_back(memory.get());
    }
  }
  ShowMoving(moving);
  for (Memory* memory : moving) {
    // Without addresses to come back to it stays out, and the resume says so.
    if (memory->may_hold_bytes && memory->base == 0) {
      (void)OpenWindow(*memory, Window::kReserved);
    }
    ranges.push_back(memory);
  }
}

void VirtualMemory::BeginReading(const Wanted& wanted, std::vector<Range*>& ranges) {
  const auto contexts = contexts_.List();
  MutexLock lock(mu_);
  for (const auto& [handle, memory] : memories_) {
    if (memory->state != RangeState::kOut || !wanted.Has(*memory)) continue;
    ++memory->calls;
    memory->context = ContextOn(contexts, memory->device);
    memory->base = memory->listed;
    ranges.push_back(memory.get());
  }
}

void VirtualMemory::EndReading(std::span<Range* const> ranges) {
  struct Shown {
    uint32_t slot;
    uint64_t number;
    wire::Place place;
  };
  std::vector<Shown> shown;
  Memories gone;
  {
    MutexLock lock(mu_);
    for (Range* range : ranges) {
      auto& memory = static_cast<Memory&>(*range);
      if (memory.backing != nullptr && memory.backing->place() != memory.place) {
        memory.place = memory.backing->place();
        if (memory.slot) shown.push_back({*memory.slot, memory.number, memory.place});
      }
      --memory.calls;
      DropIfUnused(memory, gone);
    }
  }
  for (const Shown& s : shown) ledger_.SetPlace(s.slot, s.number, s.place);
  GiveBack(gone);
}

bool VirtualMemory::AnyOut() const {
  MutexLock lock(mu_);
  return std::any_of(memories_.begin(), memories_.end(),
                     [](const auto& entry) { return entry.second->state == RangeState::kOut; });
}

void VirtualMemory::AddFilePartsOut(std::vector<FilePart>& parts) const {
  MutexLock lock(mu_);
  for (const auto& [handle, memory] : memories_) shim::AddFilePartsOut(*memory, parts);
}

void VirtualMemory::Moved(Range& range, RangeState state, wire::Place place) {
  auto& memory = static_cast<Memory&>(range);
  CloseWindow(memory, state);
  const int device = memory.device;
  int64_t change = 0;
  std::optional<uint32_t> slot;
  const uint64_t number = memory.number;
  Memories gone;
  {
    MutexLock lock(mu_);
    memory.state = state;
    memory.place = place;
    const Bytes physical = memory.pieces[0].handle != 0 ? memory.bytes : 0;
    change = int64_t(physical) - int64_t(memory.counted);
    memory.counted = physical;
    if (state == RangeState::kResident) {
      for (Mapping& mapping : memory.adopted->mappings) mapping.answers.reset();
    }
    slot = memory.slot;
    DropIfUnused(memory, gone);
    settled_.NotifyAll();
  }
  ledger_.AddResident(device, change);
  ledger_.AddOut(device, -change);
  if (slot && gone.empty()) ledger_.SetPlace(*slot, number, place);
  GiveBack(gone);
}

void VirtualMemory::TakeHostBackings(std::vector<std::unique_ptr<Backing>>& taken) {
  MutexLock lock(mu_);
  for (const auto& [handle, memory] : memories_) TakeHostBacking(*memory, taken);
}

bool VirtualMemory::OpenWindow(Memory& memory, Window window) {
  CUdeviceptr at = 0;
  if (driver_.mem_address_reserve(&at, memory.bytes, 0, 0, 0) != CUDA_SUCCESS) return false;
  const CUmemAccessDesc access = FullAccess(memory.device);
  if (window == Window::kMapped) {
    CUresult r = driver_.mem_map(at, memory.bytes, 0, memory.pieces[0].handle, 0);
    if (r == CUDA_SUCCESS) {
      r = driver_.mem_set_access(at, memory.bytes, &access, 1);
      if (r != CUDA_SUCCESS) driver_.mem_unmap(at, memory.bytes);
    }
    if (r != CUDA_SUCCESS) {
      driver_.mem_address_free(at, memory.bytes);
      return false;
    }
  }
  MutexLock lock(mu_);
  memory.window = memory.base = at;
  memory.adopted->mappings.push_back({at, {access}, 0, nullptr});
  return true;
}

void VirtualMemory::CloseWindow(Memory& memory, RangeState state) {
  const CUdeviceptr window = memory.window;
  if (window == 0) return;
  // While it is mapped there it remains a place of the memory's, for the next move to end.
  const bool mapped = state == RangeState::kResident;
  if (mapped && driver_.mem_unmap(window, memory.bytes) != CUDA_SUCCESS) return;
  {
    MutexLock lock(mu_);
    std::erase_if(memory.adopted->mappings, [window](const Mapping& m) { return m.at == window; });
    memory.window = 0;
  }
  driver_.mem_address_free(window, memory.bytes);
}

void VirtualMemory::KeepAnswers(Memory& memory) {
  const ScopedContext current(driver_, memory.context);
  if (current.status() != CUDA_SUCCESS) return;
  for (Mapping& mapping : memory.adopted->mappings) {
    auto answers = std::make_unique<const PointerAnswers>(driver_, mapping.at);
    MutexLock lock(mu_);
    mapping.answers = std::move(answers);
  }
}

Bytes VirtualMemory::ResidentBytes() const {
  Bytes bytes = 0;
  MutexLock lock(mu_);
  for (const auto& [handle, memory] : memories_) bytes += memory->counted;
  return bytes;
}

Bytes VirtualMemory::MovableBytes() const {
  Bytes bytes = 0;
  MutexLock lock(mu_);
  for (const auto& [handle, memory] : memories_) {
    const bool moves = memory->state == RangeState::kResident && memory->holds == 0;
    if (moves && memory->may_hold_bytes) bytes += memory->bytes;
  }
  return bytes;
}

Bytes VirtualMemory::HeldBytes() const {
  Bytes bytes = 0;
  MutexLock lock(mu_);
  for (const auto& [handle, memory] : memories_) {
    if (memory->holds != 0 || memory->left_behind) bytes += memory->bytes;
  }
  return bytes;
}

}  // namespace parkade::shim
