// StageBlocks: a few blocks of host memory that bytes pass through between the GPU and a place that
// it cannot copy to itself: a file, or memory that is not pinned.
#pragma once

#include <memory>
#include <vector>

#include "shim/pause/host_pool.h"

namespace parkade::shim {

// One thread.
class StageBlocks {
 public:
  // What a block should have: `most` where the stage is large enough, and never less than `least`.
  struct BlockBytes {
    Bytes most = 4_MiB;
    Bytes least = 0;
  };
  // Takes `stage_bytes` of the pool; fewer when no more can be pinned. Errors as HostPool::Take.
  static Result<std::unique_ptr<StageBlocks>> Make(HostPool& pool, Bytes stage_bytes,
                                                   const BlockBytes& wanted);
  ~StageBlocks();

  Bytes block_bytes() const { return block_bytes_; }
  uint32_t size() const { return uint32_t(blocks_.size()); }
  // False: what the GPU copies here its driver has to stage as well.
  bool pinned() const { return pinned_; }
  char* memory(uint32_t block) const { return blocks_[block].memory; }

  bool has_free() const { return !free_.empty(); }
  uint32_t TakeBlock();
  void GiveBlock(uint32_t block) { free_.push_back(block); }

  // Puts memory that is not pinned in the place of the block's own, with the first `bytes` of its
  // bytes, for when the kernel does not touch what is pinned. Once for each block.
  Result<void> Unpin(uint32_t block, Bytes bytes);
  bool unpinned(uint32_t block) const { return !blocks_[block].taken; }
  // Nobody may ever have this memory again: the kernel may still write to it.
  void Abandon();

 private:
  struct Block {
    HostBlock taken;  // empty: unpinned, the memory is ours
    char* memory;
  };

  StageBlocks() = default;

  Bytes block_bytes_ = 0;
  bool pinned_ = true;
  std::vector<Block> blocks_;
  std::vector<uint32_t> free_;
};

// A stage towards pageable memory: 8 blocks keep a link and a few copying threads busy.
constexpr Bytes kHostStage = 32_MiB;

}  // namespace parkade::shim
