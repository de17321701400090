// AddressSpace: what every address of this process is to the simulated GPUs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "common/mutex.h"
#include "tests/sim/physical.h"
#include "tests/sim/settings.h"

namespace parkade::sim {

using Address = uint64_t;

enum class RangeKind {
  kNative,      // cuMemAlloc, cuMemAllocAsync
  kManaged,     // cuMemAllocManaged
  kReserved,    // cuMemAddressReserve; holds mappings
  kImported,    // cuIpcOpenMemHandle
  kPinned,      // cuMemHostAlloc
  kRegistered,  // cuMemHostRegister
};

struct Mapping {
  Bytes bytes = 0;
  uint64_t id = 0;
  std::shared_ptr<Physical> memory;
  std::array<uint8_t, kMaxGpus> access = {};  // CUmemAccess_flags per GPU
};

struct Range {
  RangeKind kind = RangeKind::kNative;
  Address base = 0;
  Bytes bytes = 0;   // as asked for
  Bytes mapped = 0;  // whole pages
  uint64_t id = 0;   // never used twice
  int gpu = 0;
  CUcontext context = nullptr;
  CUmemoryPool pool = nullptr;
  unsigned flags = 0;
  bool sync_memops = false;
  std::shared_ptr<Physical> memory;  // none: a reservation, or host memory
};

// Memory of a simulated GPU is mapped at the addresses that the driver hands out, so an address
// that is not mapped, or whose access was not set, faults. Any thread.
class AddressSpace {
 public:
  // Maps all of `range.memory` at an address of its choice and keeps `range` with base and id
  // filled in.
  CUresult Place(Range range, Address* base);
  // Keeps host memory, given base and bytes. HOST_MEMORY_ALREADY_REGISTERED when any of it is
  // known.
  CUresult AddHost(Range range);
  // Forgets the range that begins at `base` if `kind` fits, and gives it back for its end: memory
  // is unmapped here, pinned host memory too.
  std::optional<Range> Remove(Address base, RangeKind kind);

  CUresult Reserve(Bytes bytes, Bytes alignment, Address hint, Address* base);
  CUresult FreeReservation(Address base, Bytes bytes);
  CUresult Map(Address at, Bytes bytes, std::shared_ptr<Physical> memory);
  // Takes every mapping in the range, which may have holes but may not cut a mapping.
  CUresult Unmap(Address at, Bytes bytes);
  CUresult SetAccess(Address at, Bytes bytes, const CUmemAccessDesc* access, size_t count);
  CUresult GetAccess(Address at, int gpu, unsigned long long* flags);

  // Of memory that is not mapped by cuMemMap; no effect where there is none.
  void SetSyncMemops(Address at, bool on);

  // The range and, in a reservation, the mapping that hold `at`.
  struct Found {
    Range range;
    Address mapping_base = 0;
    std::optional<Mapping> mapping;
  };
  std::optional<Found> Find(Address at);
  // Calls `visit` with every range; nothing else of this class may be called inside.
  template <typename Visit>
  void ForEach(Visit visit) {
    MutexLock lock(mu_);
    for (const auto& [base, entry] : entries_) visit(entry.range);
  }

  enum class Touch {
    kFine,
    kUnknown,  // no memory the driver knows: plain host memory, or nothing at all
    kFault,    // the driver's, but not mapped or without access
  };
  // As `gpu` sees it, kAnyGpu: as some GPU does.
  static constexpr int kAnyGpu = -1;
  Touch Check(Address at, Bytes bytes, bool write, int gpu = kAnyGpu);

 private:
  struct Entry {
    Range range;
    std::map<Address, Mapping> mappings;  // of a reservation
  };
  Entry* Holder(Address at) REQUIRES(mu_);
  Entry* Reservation(Address at) REQUIRES(mu_);
  bool Overlaps(Address at, Bytes bytes) REQUIRES(mu_);

  Mutex mu_;
  std::map<Address, Entry> entries_ GUARDED_BY(mu_);
  uint64_t next_id_ GUARDED_BY(mu_) = 1;
};

}  // namespace parkade::sim
