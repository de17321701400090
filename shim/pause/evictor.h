// Evictor: moves the ranges of one context out of HBM, block by block.
//
// Hashed where they are; blocks that the last backup has, or that are one pattern, stay where they
// are known; the others go GPU -> pinned memory, and for files on to the disk, for pageable memory
// by the hash crew on to that. Neighbours whose places are neighbours too move as one run. A piece
// is unmapped and released as soon as its last block is in its place, on a second thread behind the
// copies of the next. It undoes nothing: when it returns, each piece is either mapped with its
// bytes, or out (handle 0) with all of its blocks stored and hashed.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "common/timeline.h"
#include "shim/pause/copy_lane.h"
#include "shim/pause/eviction_order.h"
#include "shim/pause/gpu_hash.h"
#include "shim/pause/move_tools.h"
#include "shim/pause/range_backing.h"
#include "shim/pause/release_lane.h"

namespace parkade::shim {

class Evictor {
 public:
  // `moves` all have `context` and a planned backing (block_plan.h), and none is to be discarded.
  // `space` may be null when none goes to a file. All outlive it.
  Evictor(MoveTools& tools, FileSpace* space, CUcontext context, std::vector<RangeMove> moves,
          Bytes stage_bytes);

  // Fills each range's backing. Errors: CANCELLED, CUDA_..., HOST_MEMORY, MEMLOCK, DISK_SPACE,
  // those of the disk. Nothing is in flight afterwards.
  Result<void> Run();

  const MovedBytes& moved() const { return moved_; }
  Bytes released_bytes() const { return releases_.released_bytes(); }

 private:
  struct BlockAt {
    uint32_t move;
    uint32_t block;  // of its backing
  };
  // Blocks on their way in one go, and the staging block that they go through, if any.
  struct Job {
    BlockAt first;
    uint32_t count;
    Bytes bytes;
    uint32_t stage;
    bool hashed;        // in HBM
    uint32_t unhashed;  // blocks that the crew has not done yet
  };
  static constexpr uint32_t kNoBlock = UINT32_MAX;
  enum class Step { kStarted, kMustWait, kNoMore };

  // What a look at a block in HBM says of it.
  enum class Guess : uint8_t { kNew, kUnchanged, kPattern };

  Result<void> RunUntilIdle();
  // Queues hashes of what comes next.
  Result<void> Survey();
  Result<void> TakeNextAsNew();
  Result<std::vector<BlockAt>> NextBatch();
  // The block is to move, to the one of its places that is meant for that.
  void TakeAsNew(BlockAt at);
  Result<void> FinishSurveys(Patience patience);
  Result<void> Sort(const std::vector<BlockAt>& batch, std::span<const HashedBlock> found);
  Result<void> Confirm(const std::vector<BlockAt>& batch, std::span<const HashedBlock> found,
                       std::vector<Guess>& guesses);
  // A block is in its place; with the last one of a piece that goes.
  Result<void> Settle(BlockAt at);
  Result<void> ReleaseEmptyPieces(uint32_t move);

  // evictor_runs.cc
  Result<Step> StartNext();
  Result<bool> StartToHost();
  Result<bool> TakeHost(Bytes most);
  Result<bool> StartToDisk();
  uint32_t RunLength(Bytes most) const;
  Result<void> Launch(uint32_t count, uint32_t stage);
  Result<void> FinishCopy();
  Result<void> FinishHashes(Patience patience);
  Result<void> Hashed(uint32_t job);
  Result<void> FinishWrites(Patience patience);
  Result<void> Stored(const Job& job);

  Block& At(BlockAt at) const { return backings_[at.move]->blocks[at.block]; }
  GpuHash::Block InHbm(BlockAt at) const;

  MoveTools& tools_;
  FileSpace* const space_;
  const CUcontext context_;
  const std::vector<RangeMove> moves_;

  Stage stage_;
  std::unique_ptr<GpuHash> gpu_hash_;  // null: the crew hashes
  HashLane hashes_;
  CopyLane lane_;

  BlockAt surveyed_{0, 0};                    // the first block that has not been looked at
  size_t survey_blocks_;                      // that the next batch may have
  std::deque<std::vector<BlockAt>> surveys_;  // on the GPU, oldest first
  uint32_t emptied_ = 0;  // moves whose pieces without live bytes have been released
  std::deque<BlockAt> to_move_;
  std::vector<Job> jobs_;          // all so far; those below are indices in it
  std::deque<uint32_t> copying_;   // in the lane, oldest first
  std::vector<uint32_t> writing_;  // by staging block

  std::vector<RangeBacking*> backings_;         // by move
  std::vector<std::vector<Bytes>> piece_left_;  // live bytes not yet stored, by move and piece
  bool stages_host_ = false;  // memory is pageable now: blocks reach it through the stage

  Timeline timeline_;
  MovedBytes moved_;
  ReleaseLane releases_;
};

}  // namespace parkade::shim
