// Restorer: brings the ranges of one context back into HBM, block by block, on one thread.
//
// Maps a range when its first block is about to come in, while the blocks of earlier ranges are
// still being copied. Neighbours whose places are neighbours too come in one run; what is one
// pattern is filled in HBM. Every block is hashed again: by the GPU once it is in HBM; else by the
// crew, what comes through a stage before it is copied in, what lies in pinned memory at the same
// time. It creates handles only where they have to wait for room (MoveTools::room), piece by piece,
// and undoes nothing (mover.h does that).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "common/timeline.h"
#include "shim/heap/device_memory.h"
#include "shim/pause/copy_lane.h"
#include "shim/pause/gpu_hash.h"
#include "shim/pause/move_tools.h"
#include "shim/pause/range_backing.h"

namespace parkade::shim {

// A piece that is coming back, with the handle made for it.
struct Incoming {
  uint32_t piece;
  CUmemGenericAllocationHandle handle = 0;
  bool mapped = false;
};

struct RangeReturn {
  Range* range;
  std::vector<Incoming> pieces;
};

class Restorer {
 public:
  // `returns` all have `context`, and handles for all their pieces unless they wait for room. All
  // outlive it.
  Restorer(MoveTools& tools, CUcontext context, std::vector<RangeReturn*> returns,
           Bytes stage_bytes);

  // Every piece is mapped and holds its bytes, which are those that left; backings stay as they
  // are. On error some pieces are mapped (Incoming::mapped says which). DATA_LOSS BACKUP_CORRUPT or
  // BACKUP_MISSING names address, device and place. Nothing is in flight afterwards.
  Result<void> Run();

  const MovedBytes& moved() const { return moved_; }
  // Whether the GPU hashes in this context, as it will have to at the next evict for bytes to stay
  // where they are.
  bool hashed_on_gpu() const { return hashed_on_gpu_; }

 private:
  // Blocks that come in one go, and the staging block that they come through, if any.
  struct Job {
    Range* range;
    uint32_t first;  // of its backing's blocks
    uint32_t count;
    Bytes bytes;
    uint32_t stage;
    bool on_gpu;          // verified there, once they have come in
    uint32_t unverified;  // blocks that the crew has not done yet
  };
  static constexpr uint32_t kNoBlock = UINT32_MAX;
  enum class Step { kStarted, kMustWait, kNoMore };

  Result<void> RunUntilIdle();
  // Fills what was discarded; for debugging, one range after the other.
  Result<void> Poison();
  Result<Step> StartNext();
  Result<void> MapRange(RangeReturn& returning);
  Result<void> Map(const Range& range, Incoming& incoming);
  // In turn: creates and maps one piece. kMustWait: there is no room for it yet; kNoMore: it is
  // there.
  Result<Step> BringPiece(Incoming& incoming);
  // The pieces of the present range that no block belongs to.
  Result<Step> BringRest();
  Result<void> WaitForRoom();
  // In turn: the piece of the block, if it is not there yet; else null.
  Incoming* Awaited(const Block& block);
  // The next block of the present range whose piece is coming back, or null; stays there until it
  // is started.
  const Block* NextBlock();
  Result<void> StartFill();
  Result<Step> StartRead();
  Result<Step> StartFromPageable();
  // With the next block and its neighbours, `most` bytes and as many as the GPU hashes at once.
  uint32_t AddJob(Bytes most, uint32_t stage);
  void Verify(uint32_t job, const char* from, char* to);
  Result<void> Launch(uint32_t job);
  Result<void> VerifyOnGpu(uint32_t job);
  Result<void> FinishCopy();
  Result<void> FinishHashes(Patience patience);
  Result<void> FinishReads(Patience patience);
  Result<void> FinishVerifying(Patience patience);
  bool Full() const { return lane_.full() || (gpu_hash_ != nullptr && gpu_hash_->full()); }
  Error Corrupt(const Job& job, size_t block) const;
  Error Unread(const Job& job, const Error& cause) const;
  static const RangeBacking& BackingOf(const Job& job);
  static const Block& FirstOf(const Job& job) { return BackingOf(job).blocks[job.first]; }
  static CUdeviceptr AddressOf(const Job& job, size_t block);

  MoveTools& tools_;
  const CUcontext context_;
  const std::vector<RangeReturn*> returns_;

  Stage stage_;
  std::unique_ptr<GpuHash> gpu_hash_;  // null: the crew verifies
  HashLane hashes_;
  CopyLane lane_;
  std::vector<Job> jobs_;           // all so far; those below are indices in it
  std::vector<uint32_t> reading_;   // by staging block
  std::deque<uint32_t> ready_;      // verified in their staging blocks
  std::deque<uint32_t> copying_;    // in the lane, oldest first
  std::deque<uint32_t> verifying_;  // on the GPU, oldest first

  bool hashed_on_gpu_ = false;
  size_t next_return_ = 0;
  uint32_t next_block_ = 0;
  bool range_mapped_ = false;
  std::vector<bool> incoming_;  // by piece of that range
  // In turn: the piece that waits for room, and since when the driver has none where there should
  // be.
  const Incoming* waiting_ = nullptr;
  std::optional<Deadline> no_memory_by_;
  std::optional<Deadline> room_by_;  // until when it waits for room

  Timeline timeline_;
  MovedBytes moved_;
};

}  // namespace parkade::shim
