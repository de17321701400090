// VirtualMemory: memory that the application makes and maps itself, with cuMemCreate and cuMemMap,
// as ranges that can leave HBM and come back.
//
// The application gets *logical* handles, values that no driver gives out, so that the driver's
// handle can be released and made again behind it. Addresses are the application's: they are
// neither reserved nor freed here. Wherever the driver can answer a call, it does. It moves no
// bytes: pause/ does, on ranges that Heap hands over.
#pragma once

#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/mutex.h"
#include "shim/cuda/contexts.h"
#include "shim/cuda/driver.h"
#include "shim/heap/ledger_writer.h"
#include "shim/heap/range.h"

namespace parkade::shim {

class VirtualMemory {
 public:
  using Handle = CUmemGenericAllocationHandle;

  // What a call gets that needs memory which is out, while the gate is open: the process has
  // promised not to touch it.
  static constexpr CUresult kIsOut = CUDA_ERROR_SYSTEM_NOT_READY;

  // All outlive it. `last_number` is shared with the heap: numbers are unique in the process.
  VirtualMemory(const Driver& driver, LedgerWriter& ledger, const Contexts& contexts,
                std::atomic<uint64_t>& last_number);
  // What the application has not given back stays: the process ends.
  ~VirtualMemory() = default;
  VirtualMemory(const VirtualMemory&) = delete;
  VirtualMemory& operator=(const VirtualMemory&) = delete;

  // Whether `handle` is a value of this class's, live or not.
  static bool IsLogical(Handle handle) { return handle >> 48 == kMark; }
  // Whether memory so asked for can be made again: pinned, of a device, nothing special.
  static bool CanAdopt(const CUmemAllocationProp* prop);

  // --- application threads, with the gate entered; answers are the driver's own ---
  // None holds a lock across a driver call. A call about memory that is moving waits until it has
  // moved. The driver refuses unknown and released handles with INVALID_VALUE, and so do these.

  CUresult Create(Handle* out, size_t bytes, const CUmemAllocationProp& prop,
                  unsigned long long flags, std::string_view tag);
  // Memory lives on while it is mapped. What is out goes with its backup, without the driver.
  CUresult Release(Handle handle);
  // Native handles pass through; what is not mapped only because it is out is in their way too.
  CUresult Map(CUdeviceptr at, size_t bytes, size_t offset, Handle handle,
               unsigned long long flags);
  CUresult Unmap(CUdeviceptr at, size_t bytes);
  CUresult SetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access, size_t count);
  CUresult FreeAddresses(CUdeviceptr at, size_t bytes);
  // The driver's handle, for a call of which this class knows nothing.
  CUresult Resolve(Handle handle, Handle* physical);

  // Something that is not modelled refers to the memory from now on: it stays in HBM until it is
  // gone, and the ledger says why. Of a handle, or of all that is mapped in a range of addresses.
  void Hold(Handle handle, const char* why);
  void HoldMapped(CUdeviceptr at, size_t bytes, const char* why);
  // The same until LetGo: adds the memory mapped in the range to `held`. False, and nothing is
  // held, when some of it is out or on its way.
  struct Held {
    Handle handle;
    uint64_t number;
  };
  bool HoldIn(CUdeviceptr at, size_t bytes, std::vector<Held>* held);
  void LetGo(const Held& held);

  // --- any thread, any time, also while paused; the lock is held for the look-up alone ---
  // Nothing: the driver has to answer. It says nothing of ranges to a thread without a context.

  // One use more of the memory mapped at `at`; its logical handle.
  std::optional<Handle> Retain(CUdeviceptr at);
  // INVALID_VALUE for an unknown handle.
  CUresult GetProperties(Handle handle, CUmemAllocationProp* out) const;
  std::optional<PointerAnswers::Answer> Ask(CUdeviceptr at, CUpointer_attribute attribute) const;
  struct Span {
    CUdeviceptr base;
    Bytes bytes;
  };
  // The mapping that holds `at`, while the driver does not know it.
  std::optional<Span> FindMissing(CUdeviceptr at) const;
  // The access flags of a location there, likewise.
  std::optional<unsigned long long> MissingAccess(CUdeviceptr at,
                                                  const CUmemLocation& location) const;

  // --- for Heap; operation thread ---

  // As Heap's. What is not mapped so that its own device can read and write it gets addresses of
  // the shim's for the time of the move. Memory whose device has no context stays behind.
  void BeginEviction(const Wanted& wanted, std::vector<Range*>& ranges);
  void BeginRestore(const Wanted& wanted, std::vector<Range*>& ranges);
  void BeginReading(const Wanted& wanted, std::vector<Range*>& ranges);
  void EndReading(std::span<Range* const> ranges);
  bool AnyOut() const;
  void AddFilePartsOut(std::vector<FilePart>& parts) const;
  void Moved(Range& range, RangeState state, wire::Place place);
  void TakeHostBackings(std::vector<std::unique_ptr<Backing>>& taken);
  // Physical bytes, and bytes that an eviction now would move.
  Bytes ResidentBytes() const;
  Bytes MovableBytes() const;
  // Bytes that are held, or were left behind by the last eviction.
  Bytes HeldBytes() const;

 private:
  static constexpr Handle kMark = 0x504b;

  // What one cuMemCreate has made: a range of one piece, its base the address to copy through.
  struct Memory : Range {
    Handle handle;
    CUmemAllocationProp described;  // as the driver describes it
    uint32_t references = 1;        // the application's: creation and retains
    uint32_t calls = 0;             // in the driver now, on its behalf, or reading its backing
    bool may_hold_bytes = false;    // it has been accessible
    bool left_behind = false;       // by the last eviction
    CUdeviceptr window = 0;  // addresses of the shim's own, while it moves; among its mappings
    CUdeviceptr listed = 0;  // the address in the ledger
    std::optional<uint32_t> slot;
  };
  using Memories = std::vector<std::unique_ptr<Memory>>;
  struct Mapped {
    CUdeviceptr at;
    Memory* memory;
    Mapping& mapping() const;  // under mu_
  };

  Memory* Find(Handle handle) const REQUIRES(mu_);
  // Memory that has references, once it is not moving: waits.
  Memory* FindSettled(Handle handle) REQUIRES(mu_);
  std::optional<Mapped> MappedAt(CUdeviceptr at) const REQUIRES(mu_);
  // What overlaps [at, at + bytes).
  std::vector<Mapped> MappedIn(CUdeviceptr at, size_t bytes) const REQUIRES(mu_);
  // The same once nothing of it is moving: waits.
  std::vector<Mapped> SettledIn(CUdeviceptr at, size_t bytes) REQUIRES(mu_);
  void AddMapping(Memory& memory, Mapping mapping) REQUIRES(mu_);
  // Takes memory that nobody refers to any more out of the table.
  void DropIfUnused(Memory& memory, Memories& gone) REQUIRES(mu_);
  // Gives it back to ledger and driver; the last error of the driver's.
  CUresult GiveBack(const Memories& gone);

  wire::AllocationClass ClassOf(const Memory& memory) const REQUIRES(mu_) {
    return memory.holds == 0 ? wire::AllocationClass::kPausable : wire::AllocationClass::kHeld;
  }

  bool ThreadHasContext() const;

  // Says in the ledger where memory is that may hold bytes; no effect for other memory.
  void List(Handle handle);
  // The same for whether it is held, after that may have changed.
  void ShowClass(Handle handle);
  void ShowMoving(const std::vector<Memory*>& moving);

  // A move's own addresses for memory that is moving, mapped there or not. False: there are none.
  enum class Window : uint8_t { kMapped, kReserved };
  bool OpenWindow(Memory& memory, Window window);
  void CloseWindow(Memory& memory, RangeState state);
  // What the driver says of each place, for the time when it knows nothing there.
  void KeepAnswers(Memory& memory);

  const Driver& driver_;
  LedgerWriter& ledger_;
  const Contexts& contexts_;
  std::atomic<uint64_t>& last_number_;

  Mutex showing_mu_;  // while the ledger is told who is held; mu_ and the ledger's come after it
  mutable Mutex mu_;  // innermost
  CondVar settled_;   // a range has stopped moving
  std::map<Handle, std::unique_ptr<Memory>> memories_ GUARDED_BY(mu_);
  std::map<CUdeviceptr, Memory*> places_ GUARDED_BY(mu_);  // by the mapping's address
  Handle last_handle_ GUARDED_BY(mu_) = 0;
};

}  // namespace parkade::shim
