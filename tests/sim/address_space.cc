// Address ranges and their mappings, by mmap on the memfds of the simulated GPUs.
#include "tests/sim/address_space.h"

#include <sys/mman.h>

#include <iterator>

namespace parkade::sim {
namespace {

void* Pointer(Address at) { return reinterpret_cast<void*>(at); }

// Address space without memory behind it, aligned; 0 when there is none.
Address ReserveAddresses(Bytes bytes, Bytes alignment) {
  const Bytes slack = alignment > 4_KiB ? alignment : 0;
  void* map =
      mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return 0;
  const Address start = reinterpret_cast<Address>(map);
  const Address base = RoundUp(start, slack != 0 ? alignment : 4_KiB);
  if (base > start) munmap(map, base - start);
  const Address end = start + bytes + slack;
  if (end > base + bytes) munmap(Pointer(base + bytes), end - base - bytes);
  return base;
}

bool MapAt(Address at, const Physical& memory, int protection) {
  void* map = mmap(Pointer(at), memory.bytes(), protection, MAP_SHARED | MAP_FIXED, memory.fd(), 0);
  if (map == MAP_FAILED) return false;
  // A forked child may not keep freed device memory alive.
  madvise(map, memory.bytes(), MADV_DONTFORK);
  return true;
}

void Blank(Address at, Bytes bytes) {
  mmap(Pointer(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
}

// Whether whole mappings fill [at, at + bytes) exactly.
bool Exact(const std::map<Address, Mapping>& mappings, Address at, Bytes bytes) {
  Address next = at;
  for (auto i = mappings.find(at); i != mappings.end() && i->first == next; ++i) {
    next += i->second.bytes;
    if (next >= at + bytes) return next == at + bytes;
  }
  return false;
}

bool Allows(const Mapping& mapping, bool write, int gpu) {
  for (int i = 0; i < kMaxGpus; ++i) {
    if (gpu != AddressSpace::kAnyGpu && i != gpu) continue;
    const uint8_t flags = mapping.access[size_t(i)];
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return true;
    if (!write && flags == CU_MEM_ACCESS_FLAGS_PROT_READ) return true;
  }
  return false;
}

bool OnDevice(RangeKind kind) {
  return kind != RangeKind::kPinned && kind != RangeKind::kRegistered;
}

}  // namespace

CUresult AddressSpace::Place(Range range, Address* base) {
  range.mapped = range.memory->bytes();
  const Address at =
      ReserveAddresses(range.mapped, range.mapped >= kGranularity ? kGranularity : 0);
  if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!MapAt(at, *range.memory, PROT_READ | PROT_WRITE)) {
    munmap(Pointer(at), range.mapped);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  range.base = at;
  MutexLock lock(mu_);
  range.id = next_id_++;
  entries_[at].range = std::move(range);
  *base = at;
  return CUDA_SUCCESS;
}

CUresult AddressSpace::AddHost(Range range) {
  MutexLock lock(mu_);
  if (Overlaps(range.base, range.bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (range.mapped == 0) range.mapped = range.bytes;
  range.id = next_id_++;
  entries_[range.base].range = std::move(range);
  return CUDA_SUCCESS;
}

std::optional<Range> AddressSpace::Remove(Address base, RangeKind kind) {
  MutexLock lock(mu_);
  const auto found = entries_.find(base);
  if (found == entries_.end() || found->second.range.kind != kind) return std::nullopt;
  Range range = std::move(found->second.range);
  entries_.erase(found);
  if (kind != RangeKind::kRegistered) munmap(Pointer(range.base), range.mapped);
  return range;
}

CUresult AddressSpace::Reserve(Bytes bytes, Bytes alignment, Address hint, Address* base) {
  if (bytes == 0 || bytes % kGranularity != 0 || (alignment & (alignment - 1)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Address at = 0;
  if (hint != 0 && hint % kGranularity == 0) {
    void* map = mmap(Pointer(hint), bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (map != MAP_FAILED) at = reinterpret_cast<Address>(map);
  }
  if (at == 0) at = ReserveAddresses(bytes, alignment > kGranularity ? alignment : kGranularity);
  if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  madvise(Pointer(at), bytes, MADV_DONTFORK);
  MutexLock lock(mu_);
  Range range;
  range.kind = RangeKind::kReserved;
  range.base = at;
  range.bytes = range.mapped = bytes;
  range.id = next_id_++;
  entries_[at].range = std::move(range);
  *base = at;
  return CUDA_SUCCESS;
}

CUresult AddressSpace::FreeReservation(Address base, Bytes bytes) {
  MutexLock lock(mu_);
  const auto found = entries_.find(base);
  if (found == entries_.end() || found->second.range.kind != RangeKind::kReserved ||
      found->second.range.bytes != bytes || !found->second.mappings.empty())
    return CUDA_ERROR_INVALID_VALUE;
  entries_.erase(found);
  munmap(Pointer(base), bytes);
  return CUDA_SUCCESS;
}

CUresult AddressSpace::Map(Address at, Bytes bytes, std::shared_ptr<Physical> memory) {
  MutexLock lock(mu_);
  Entry* entry = Reservation(at);
  if (entry == nullptr || at % kGranularity != 0 ||
      bytes > entry->range.base + entry->range.bytes - at)
    return CUDA_ERROR_INVALID_VALUE;
  auto next = entry->mappings.lower_bound(at);
  if (next != entry->mappings.end() && next->first < at + bytes) return CUDA_ERROR_INVALID_VALUE;
  if (next != entry->mappings.begin()) {
    --next;
    if (next->first + next->second.bytes > at) return CUDA_ERROR_INVALID_VALUE;
  }
  if (!MapAt(at, *memory, PROT_NONE)) return CUDA_ERROR_OUT_OF_MEMORY;
  Mapping mapping;
  mapping.bytes = bytes;
  mapping.id = next_id_++;
  mapping.memory = std::move(memory);
  entry->mappings.emplace(at, std::move(mapping));
  return CUDA_SUCCESS;
}

CUresult AddressSpace::Unmap(Address at, Bytes bytes) {
  std::map<Address, Mapping> gone;  // settled outside the lock
  MutexLock lock(mu_);
  Entry* entry = Reservation(at);
  if (entry == nullptr || bytes > entry->range.base + entry->range.bytes - at)
    return CUDA_ERROR_INVALID_VALUE;
  auto& mappings = entry->mappings;
  auto first = mappings.lower_bound(at);
  if (first != mappings.begin()) {
    const auto before = std::prev(first);
    if (before->first + before->second.bytes > at) return CUDA_ERROR_INVALID_VALUE;
  }
  const auto end = mappings.lower_bound(at + bytes);
  if (first == end || std::prev(end)->first + std::prev(end)->second.bytes > at + bytes)
    return CUDA_ERROR_INVALID_VALUE;
  Blank(at, bytes);
  while (first != end) gone.insert(mappings.extract(first++));
  return CUDA_SUCCESS;
}

CUresult AddressSpace::SetAccess(Address at, Bytes bytes, const CUmemAccessDesc* access,
                                 size_t count) {
  MutexLock lock(mu_);
  Entry* entry = Reservation(at);
  if (entry == nullptr || bytes == 0 || !Exact(entry->mappings, at, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  auto i = entry->mappings.find(at);
  for (; i != entry->mappings.end() && i->first < at + bytes; ++i) {
    Mapping& mapping = i->second;
    for (size_t n = 0; n < count; ++n)
      mapping.access[size_t(access[n].location.id)] = uint8_t(access[n].flags);
    const int protection = Allows(mapping, true, kAnyGpu)    ? PROT_READ | PROT_WRITE
                           : Allows(mapping, false, kAnyGpu) ? PROT_READ
                                                             : PROT_NONE;
    mprotect(Pointer(i->first), mapping.bytes, protection);
  }
  return CUDA_SUCCESS;
}

CUresult AddressSpace::GetAccess(Address at, int gpu, unsigned long long* flags) {
  const auto found = Find(at);
  if (!found || (!found->mapping && found->range.memory == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  // None for what was not mapped by cuMemMap, though all of it can be used (580).
  *flags = found->mapping ? found->mapping->access[size_t(gpu)] : 0u;
  return CUDA_SUCCESS;
}

void AddressSpace::SetSyncMemops(Address at, bool on) {
  MutexLock lock(mu_);
  if (Entry* entry = Holder(at); entry != nullptr) entry->range.sync_memops = on;
}

std::optional<AddressSpace::Found> AddressSpace::Find(Address at) {
  MutexLock lock(mu_);
  Entry* entry = Holder(at);
  if (entry == nullptr) return std::nullopt;
  Found found;
  found.range = entry->range;
  auto next = entry->mappings.upper_bound(at);
  if (next != entry->mappings.begin()) {
    --next;
    if (at - next->first < next->second.bytes) {
      found.mapping_base = next->first;
      found.mapping = next->second;
    }
  }
  return found;
}

AddressSpace::Touch AddressSpace::Check(Address at, Bytes bytes, bool write, int gpu) {
  MutexLock lock(mu_);
  Entry* entry = Holder(at);
  if (entry == nullptr) return Overlaps(at, bytes) ? Touch::kFault : Touch::kUnknown;
  const Range& range = entry->range;
  if (bytes > range.base + range.bytes - at)
    return OnDevice(range.kind) ? Touch::kFault : Touch::kUnknown;
  if (range.kind != RangeKind::kReserved) return Touch::kFine;
  Address next = at;
  auto i = entry->mappings.upper_bound(at);
  if (i != entry->mappings.begin()) --i;
  for (; i != entry->mappings.end() && i->first <= next; ++i) {
    if (next - i->first >= i->second.bytes || !Allows(i->second, write, gpu)) return Touch::kFault;
    next = i->first + i->second.bytes;
    if (next - at >= bytes) return Touch::kFine;
  }
  return Touch::kFault;
}

AddressSpace::Entry* AddressSpace::Holder(Address at) {
  auto next = entries_.upper_bound(at);
  if (next == entries_.begin()) return nullptr;
  --next;
  return at - next->first < next->second.range.bytes ? &next->second : nullptr;
}

AddressSpace::Entry* AddressSpace::Reservation(Address at) {
  Entry* entry = Holder(at);
  return entry != nullptr && entry->range.kind == RangeKind::kReserved ? entry : nullptr;
}

bool AddressSpace::Overlaps(Address at, Bytes bytes) {
  if (Holder(at) != nullptr) return true;
  const auto next = entries_.lower_bound(at);
  return next != entries_.end() && next->first - at < bytes;
}

}  // namespace parkade::sim
