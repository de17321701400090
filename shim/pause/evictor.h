// Evictor: moves the ranges of one context out of HBM, chunk by chunk.
//
// Hashed where it is, then GPU -> pinned memory, and for files on to the disk, for pageable memory
// by the hash crew on to that; a piece is unmapped and released as soon as its last chunk is in its
// place, behind the copies of the next, on a second thread. It undoes nothing: when it returns,
// each piece is either mapped with its bytes, or out (handle 0) with all of its chunks stored and
// hashed.
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
  // `moves` all have `context`, and none is to be discarded. `space` may be null when none goes to
  // a file. All outlive it.
  Evictor(MoveTools& tools, FileSpace* space, CUcontext context, std::vector<RangeMove> moves,
          Bytes stage_bytes);

  // Makes each range's backing and fills it. Errors: CANCELLED, CUDA_..., HOST_MEMORY, MEMLOCK,
  // DISK_SPACE, those of the disk. Nothing is in flight afterwards.
  Result<void> Run();

  const MovedBytes& moved() const { return moved_; }
  Bytes released_bytes() const { return releases_.released_bytes(); }

 private:
  // A chunk on its way: which one, and the staging block it goes through, if any.
  struct Job {
    uint32_t move;
    uint32_t chunk;
    uint32_t block;
    bool on_gpu;  // hashed there
  };
  static constexpr uint32_t kNoBlock = UINT32_MAX;
  enum class Step { kStarted, kMustWait, kNoMore };

  Result<void> RunUntilIdle();
  Result<Step> StartNext();
  Result<void> BeginRange();
  Result<bool> CutToHost();
  Result<bool> CutToDisk();
  bool StagesHost();
  Result<void> OpenDisk();
  Result<void> Launch(uint32_t chunk, uint32_t block);
  Result<void> FinishCopy();
  Result<void> FinishHashes(Patience patience);
  Result<void> Hashed(uint32_t job);
  Result<void> FinishWrites(Patience patience);
  Result<void> Stored(const Job& job);
  Chunk& ChunkOf(const Job& job) { return backings_[job.move]->chunks[job.chunk]; }
  char* MemoryOf(const Job& job);

  MoveTools& tools_;
  FileSpace* const space_;
  const CUcontext context_;
  const std::vector<RangeMove> moves_;
  const Bytes stage_bytes_;

  std::unique_ptr<StageBlocks> blocks_;
  std::unique_ptr<DiskStage> disk_;
  std::unique_ptr<GpuHash> gpu_hash_;  // null: the crew hashes
  HashLane hashes_;
  CopyLane lane_;
  std::vector<Job> jobs_;          // all so far; those below are indices in it
  std::deque<uint32_t> copying_;   // in the lane, oldest first
  std::vector<uint32_t> writing_;  // by staging block

  // Per range, since its first chunk was cut.
  std::vector<RangeBacking*> backings_;
  std::vector<std::vector<Bytes>> piece_left_;  // live bytes not yet stored, by piece

  uint32_t next_ = 0;  // range that is being cut
  std::unique_ptr<ChunkCutter> cutter_;
  Bytes host_left_ = 0;       // of that range's share of host memory
  bool stages_host_ = false;  // memory is pageable now: chunks reach it through the stage

  Timeline timeline_;
  MovedBytes moved_;
  ReleaseLane releases_;
};

}  // namespace parkade::shim
