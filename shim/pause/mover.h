// Mover: moves a process's ranges out of HBM and back, every GPU at once.
//
// The steps of an evict and of a restore with the undo of each; one thread a context. Does not know
// the gate, the states, or the heap's tables.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "shim/heap/device_memory.h"
#include "shim/pause/block_plan.h"
#include "shim/pause/eviction_order.h"
#include "shim/pause/file_stamp.h"
#include "shim/pause/move_tools.h"
#include "shim/pause/restorer.h"

namespace parkade::shim {

struct ShiftReport;
struct VerifyReport;

// What an evict or a restore has done, also when it failed.
struct MoveReport {
  MovedBytes moved;
  Bytes released_bytes = 0;  // physical, given back or taken
  int device = -1;           // that the error is about
  // Of GPU_MEMORY: what the device's bytes need, and what the driver had.
  Bytes needed_bytes = 0;
  Bytes free_bytes = 0;
};

// What a restore has brought into HBM while its backups are still whole: to be kept, or taken back.
struct Arrival {
  std::vector<Range*> ranges;
  std::vector<RangeReturn> returns;  // those of `ranges` that had a piece out
};

// Operation thread.
class Mover {
 public:
  // All outlive it.
  Mover(const Driver& driver, const Contexts& contexts, DeviceMemory& memory, HostPool& pool,
        LedgerWriter& ledger, MakeEngine make_engine);

  // Moves out what `order` says, but for what the last backups of its ranges still have; what is to
  // be discarded comes last. Stops at the next run of blocks once `abort` is true: CANCELLED. On
  // error nothing is undone yet: Restore with every range of the order does that.
  Result<void> Evict(const EvictionOrder& order, const EvictionPlan& plan, const DirectFiles& files,
                     const std::atomic<bool>& abort, MoveReport* report);

  // Brings back every piece of `ranges` that is out. Backings stay, for Keep to look at. Creates
  // all handles first. On error every range is as it was, backings whole: GPU_MEMORY with the
  // needed and free bytes, CUDA_..., BACKUP_CORRUPT, BACKUP_MISSING or what the disk says.
  Result<void> Restore(std::span<Range* const> ranges, const DirectFiles& files, Bytes stage_bytes,
                       MoveReport* report);

  // The same in two steps, the handles one after the other as `room` allows; stops at the next
  // run of blocks once `abort` is true: CANCELLED. After it one of the two that follow.
  Result<Arrival> BringIn(std::span<Range* const> ranges, const DirectFiles& files,
                          Bytes stage_bytes, Room& room, const std::atomic<bool>& abort,
                          MoveReport* report);
  void Keep(Arrival& arrival);
  void TakeBack(Arrival& arrival) { TakeBack(arrival.returns); }

  // Reads what is out of `ranges`, which stays out; see Verifier.
  Result<void> Verify(std::span<Range* const> ranges, const DirectFiles& files, Bytes stage_bytes,
                      const std::atomic<bool>& stop, VerifyReport* report);

  // Moves what is out of `ranges`, which stays out: from files to host memory, `grant` bytes at
  // most; and on to what is not `taken` of the files. See Shifter.
  Result<void> ToHost(std::span<Range* const> ranges, const DirectFiles& files, Bytes grant,
                      Bytes stage_bytes, const std::atomic<bool>& stop, ShiftReport* report);
  Result<void> ToFiles(std::span<Range* const> ranges, const DirectFiles& files,
                       std::vector<FilePart> taken, Bytes stage_bytes,
                       const std::atomic<bool>& stop, ShiftReport* report);

  // For a range that is whole in HBM: keeps its backing where the next evict can make use of it, or
  // the program has said that it will (SetRetains).
  void KeepBacking(Range& range) const;
  // Whether backups of what the program pauses itself outlive a restore.
  void SetRetains(bool retains) { retains_ = retains; }
  // Whether what was discarded comes back full of 0xCB, so that whoever reads it shows.
  void SetPoisons(bool poisons) { poisons_ = poisons; }

 private:
  // Runs `work(i)` for every i below `count`, on a thread each where threads can be had.
  template <typename Work>
  static void OnThreads(size_t count, Work work);

  bool Keeps(const Range& range) const;
  // Says once in the ledger when memory could not be pinned, or not be had near its GPU.
  void EndGrowth();
  Result<void> Plan(const EvictionOrder& order, const EvictionPlan& plan, const DirectFiles& files,
                    BlockPlan* blocks);
  Result<void> EvictAll(const EvictionOrder& order, const EvictionPlan& plan,
                        const DirectFiles& files, BlockPlan& blocks, const std::atomic<bool>& abort,
                        MoveReport* report);
  Result<void> Discard(Range& range, MoveReport* report);
  // Null: all handles at once, and nobody can stop it.
  struct Turn {
    Room& room;
    const std::atomic<bool>& abort;
  };
  Result<Arrival> BringIn(std::span<Range* const> ranges, const DirectFiles& files,
                          Bytes stage_bytes, Turn* turn, MoveReport* report);
  Result<void> CreateHandles(std::vector<RangeReturn>& returns, MoveReport* report);
  void TakeBack(std::vector<RangeReturn>& returns);
  // Its figures go to `report`; the free ones are what the driver has now.
  Error NoRoom(const std::vector<RangeReturn>& returns, int device, MoveReport* report) const;

  const Driver& driver_;
  DeviceMemory& memory_;
  HostPool& pool_;
  LedgerWriter& ledger_;
  const MakeEngine make_engine_;
  Shelves shelves_;
  wire::Elision elision_ = wire::Elision::kHash;  // as the last evict was asked
  bool hashed_on_gpu_ = false;                    // all that the last restore brought back
  bool retains_ = false;
  bool poisons_ = false;
  // The files of the last evict that had any: its number, and how it left them.
  uint64_t files_number_ = 0;
  std::vector<FileStamp> stamps_;
};

}  // namespace parkade::shim
