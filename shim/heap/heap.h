// Heap: takes the place of cuMemAlloc and cuMemFree with memory that can leave HBM and come back.
//
// It owns address ranges, handles and the table of allocations, and writes the ledger. It moves no
// bytes: pause/ does, on ranges that it takes with BeginEviction or BeginRestore.
#pragma once

#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "common/mutex.h"
#include "shim/cuda/driver.h"
#include "shim/heap/device_memory.h"
#include "shim/heap/implicit_wait.h"
#include "shim/heap/ledger_writer.h"
#include "shim/heap/range.h"
#include "shim/heap/slab_shelf.h"
#include "shim/heap/virtual_memory.h"

namespace parkade::shim {

// What a query about an address inside one of our allocations is answered from.
struct AllocationView {
  CUdeviceptr base;
  Bytes bytes;  // as the application asked
  int device;
  CUcontext context;
  uint64_t number;           // unique in the process, rising
  bool resident;             // false: the driver knows no memory there now
  bool sync_memops = false;  // as the application has set it
};

class Heap {
 public:
  // All outlive it.
  Heap(const Driver& driver, LedgerWriter& ledger, const Contexts& contexts);
  // Gives everything back to the driver, allocations of the application included. No operation and
  // no call may be under way.
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Application threads, with the gate entered. The current context decides the device. On success
  // *out is the base of `bytes` usable bytes, aligned as native; else it is untouched. Errors are
  // the native ones: INVALID_VALUE for zero bytes, INVALID_CONTEXT, OUT_OF_MEMORY (after empty
  // slabs went back to the driver). NOT_SUPPORTED: the device has no virtual memory management, the
  // caller takes native memory. No lock is held across a driver call. What the program wants to
  // pause itself gets handles of its own, whatever its size.
  CUresult Allocate(CUdeviceptr* out, size_t bytes, std::string_view tag,
                    Saving saving = Saving::kNone);

  // Application threads, gate not entered. False when `ptr` is not in memory of ours; *result is
  // then untouched. Otherwise *result is what the caller gets: INVALID_VALUE when `ptr` is not the
  // base of a live allocation, as native; else the allocation is freed after cudaFree's implicit
  // wait (implicit_wait.h; none while the range is out or moving). When the wait fails, the memory
  // is freed after the context's next wait; its error is passed on as the driver does, but for a
  // lack of memory to wait with.
  bool Free(CUdeviceptr ptr, CUresult* result);

  // Any thread, any time, also while paused; lock held for the look-up alone.
  std::optional<AllocationView> Find(CUdeviceptr ptr) const;
  // Whether any of the addresses lies in a range of the heap's, allocated or not. As Find.
  bool Owns(CUdeviceptr ptr, Bytes bytes = 1) const;
  // What the attribute SYNC_MEMOPS says from now on of allocation `number` at `base`, if it is
  // still there. Any thread.
  void SetSyncMemops(CUdeviceptr base, uint64_t number, bool on);

  // An allocation as another process is to map it: the whole range that it lies in.
  struct Shared {
    Bytes range_bytes;
    Bytes offset;  // of the allocation in the range
    Bytes bytes;
    int device;
    std::vector<Piece> pieces;
    CUdeviceptr range;  // with its number: what LetGo wants
    uint64_t range_number;
  };
  enum class Holding : uint8_t { kHeld, kOut, kGone };
  // Keeps the range of allocation `number` at `base` in HBM until LetGo, and describes it. Its
  // allocations are of the class `held` meanwhile. kOut: its bytes are out or on their way; ask
  // again. kGone: there is no such allocation (any more). Any thread.
  Holding Hold(CUdeviceptr base, uint64_t number, Shared* shared);
  // One Hold less. No effect when the range is gone, because all in it was freed meanwhile.
  void LetGo(CUdeviceptr range, uint64_t range_number);
  // All memory that overlaps a range of addresses, the heap's and virtual_memory()'s, while it is
  // kept in HBM.
  struct Held {
    std::vector<std::pair<CUdeviceptr, uint64_t>> ranges;  // base and number
    std::vector<VirtualMemory::Held> mapped;
    bool empty() const { return ranges.empty() && mapped.empty(); }
  };
  // Keeps it until LetGo. Nothing, and none of it is held, when some is out or on its way. Any
  // thread.
  std::optional<Held> HoldIn(CUdeviceptr at, Bytes bytes);
  void LetGo(const Held& held);
  // Bytes of live allocations in held ranges, and of memory in virtual_memory() that is held.
  Bytes HeldBytes() const;

  // Peer access of `user` to memory of device `owner` was enabled or disabled: the driver does it
  // for memory of its own, this for the heap's. Application threads, gate entered.
  CUresult SetPeer(int owner, int user, DeviceMemory::Peer why, bool allowed);
  // Lets `user`, which can, copy memory of device `owner`. False: the driver refuses. Application
  // threads, gate entered.
  bool OpenForCopies(int owner, int user);

  // The context has been destroyed or reset, for which the driver has waited for its work: frees
  // what was made under it. Application threads.
  void ForgetContext(CUcontext context);

  // Gives empty slabs back to the driver; returns the bytes. Any thread, gate open or closed.
  Bytes Trim();

  // Of what the program pauses itself (Saving). Any thread.
  struct Saved {
    bool any = false;  // in HBM, and free to move
    Bytes disk = 0;    // of it, what goes to files
    Bytes held = 0;    // in HBM, and kept there for others
  };
  Saved CountSaved(const Wanted& wanted) const;
  // The devices that it is on, in HBM or out, by ordinal.
  std::vector<int> DevicesOfSaved(const Wanted& wanted) const;
  // The backup of [at, at + bytes), where that lies in one allocation and its backup in one piece
  // of host memory; valid until the allocation moves or ends. Else null.
  const char* SavedCopy(CUdeviceptr at, Bytes bytes) const;

  // --- for pause/, on the agent's operation thread; one operation at a time ---

  // Every resident range that is wanted and not held becomes kMoving, with its live extents filled,
  // and is returned: the heap's in address order, then those of virtual_memory(). Empty slabs are
  // given back first. The pointers stay valid until the operation ends with MovedOut or MovedIn for
  // each.
  std::vector<Range*> BeginEviction(const Wanted& wanted = {});
  // Every range that is out and wanted becomes kMoving and is returned: tag after tag, where tags
  // are wanted, and in the same order among each tag's.
  std::vector<Range*> BeginRestore(const Wanted& wanted = {});
  // Every range that is out, for its backing to be read, or to be moved to another place than HBM.
  // It stays out, and the application's calls go on; what it frees meanwhile stays until
  // EndReading, after which the records say where the bytes are by then.
  std::vector<Range*> BeginReading(const Wanted& wanted);
  void EndReading(std::vector<Range*> ranges);
  // Whether any range is out; the parts of files in which such ranges have their bytes. Any thread.
  bool AnyOut() const;
  std::vector<FilePart> FilePartsOut() const;
  // The range has left HBM: pieces whose handle is 0 are out. That is all of them, but for an
  // eviction that could be neither finished nor undone. `place` is what its records say from now
  // on. A range that was doomed in between is destroyed here: mapped pieces are unmapped and
  // released, its addresses and backing given back.
  void MovedOut(Range* range, wire::Place place);
  // The range is whole in HBM (it came back, or it never left). Doomed ranges as above.
  void MovedIn(Range* range);

  // The backings of resident ranges that hold host memory; the ranges have none from now on.
  std::vector<std::unique_ptr<Backing>> TakeHostBackings();

  // Physical bytes of resident ranges, and live bytes that an eviction now would move, those in
  // held ranges included: their importers may let go before it begins.
  struct Totals {
    Bytes resident;
    Bytes live;
  };
  Totals Count() const;

  // For making the handles of a range again: the same kind as the heap makes.
  DeviceMemory& memory() { return memory_; }
  // What the application makes and maps itself; its ranges move with the heap's.
  VirtualMemory& virtual_memory() { return virtual_memory_; }
  ImplicitWait& implicit_wait() { return wait_; }

 private:
  struct Allocation {
    Range* range;
    Bytes bytes;
    uint64_t number;
    std::optional<uint32_t> slot;  // none until it is in the ledger
    bool freeing = false;          // claimed by a Free, which may be waiting for the GPU
    bool sync_memops = false;
  };
  using Table = std::map<CUdeviceptr, Allocation>;

  // An allocation that a Free has claimed. The number tells it from a later one at its address.
  struct Claim {
    CUdeviceptr ptr;
    uint64_t number;
  };

  // What has left the tables, to be given back once the lock is no longer held.
  struct Removed {
    struct Entry {
      std::optional<uint32_t> slot;
      int device;
      Bytes bytes;
    };
    std::vector<Entry> allocations;
    std::vector<std::unique_ptr<Range>> ranges;
  };

  bool InRange(CUdeviceptr ptr) const REQUIRES(mu_);
  // Enters an allocation into the table; the ledger's record for it is returned.
  wire::LedgerRecord Enter(CUdeviceptr base, Range& range, Bytes bytes) REQUIRES(mu_);
  // Takes an allocation out of the table, and its range too when that is no longer needed.
  void Drop(Table::iterator it, Removed& removed) REQUIRES(mu_);
  void Detach(Range& range, Removed& removed) REQUIRES(mu_);
  void DetachEmptySlabs(Removed& removed) REQUIRES(mu_);
  std::vector<Extent> LiveExtents(const Range& range) const REQUIRES(mu_);
  // Sets what the ledger is to say of a range's allocations, and notes them for ShowPlaces.
  struct Shown {
    uint32_t slot;
    uint64_t number;
    wire::Place place;
  };
  void SetPlace(Range& range, wire::Place place, std::vector<Shown>& shown) REQUIRES(mu_);

  std::optional<wire::LedgerRecord> TakeFromSlab(const SlabShelf::Key& key, Bytes bytes);
  // Asks the driver for a slab, or for a range of just this request; falls back to the latter.
  CUresult MakeRange(const SlabShelf::Key& key, const DeviceMemory::Device& device, Bytes bytes,
                     Saving saving, std::unique_ptr<Range>* out);
  wire::LedgerRecord AddRange(std::unique_ptr<Range> made, const DeviceMemory::Device& device,
                              Bytes bytes);
  void Publish(const wire::LedgerRecord& record);
  CUresult ChangePeer(int owner, int user, DeviceMemory::Peer why, bool allowed)
      REQUIRES(opening_mu_);
  // For a range made while it changed who may use its device's memory.
  void OpenAgain(CUdeviceptr base, Bytes bytes, int device);
  void Moved(Range* range, RangeState state, wire::Place place);
  void ShowPlaces(const std::vector<Shown>& shown);
  // Says in the ledger whether a range is held, after that may have changed; none when it is gone.
  void ShowClass(CUdeviceptr range, uint64_t range_number);
  // The allocations of `range` that are in the ledger.
  std::vector<Shown> ShownIn(const Range& range) REQUIRES(mu_);
  // Ledger and driver; returns the physical bytes. Backings go with `removed` itself.
  Bytes GiveBack(const Removed& removed);

  const Driver& driver_;
  LedgerWriter& ledger_;
  std::atomic<uint64_t> last_number_{0};  // of allocations, ranges and mappings
  ImplicitWait wait_;
  DeviceMemory memory_;
  VirtualMemory virtual_memory_;

  Mutex opening_mu_;  // while memory is opened to devices, so that who comes second finds it open
  Mutex showing_mu_;  // while the ledger is told who is held; mu_ and the ledger's come after it
  mutable Mutex mu_;  // innermost: nothing is called, copied or waited for while it is held
  std::map<CUdeviceptr, std::unique_ptr<Range>> ranges_ GUARDED_BY(mu_);
  Table allocations_ GUARDED_BY(mu_);
  std::map<SlabShelf::Key, SlabShelf> shelves_ GUARDED_BY(mu_);
  // Freed when the implicit wait failed; dropped after the context's next one.
  std::map<CUcontext, std::vector<Claim>> deferred_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
