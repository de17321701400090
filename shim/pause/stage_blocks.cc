// Takes the stage's blocks from the pool.
#include "shim/pause/stage_blocks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/io/direct_files.h"

namespace parkade::shim {
namespace {

constexpr uint64_t kPinMs = 60'000;

Bytes MappedBytes(Bytes block_bytes) { return RoundUp(block_bytes, 2_MiB); }

// At least four blocks, so that the two sides of a small stage overlap as well; none larger than
// what any new slice of the pool has room for.
Bytes Fitting(Bytes stage_bytes, Bytes most) {
  return std::clamp(stage_bytes / 4 / kDirectAlign * kDirectAlign, kDirectAlign,
                    std::min(most, HostPool::kLeastSlice));
}

}  // namespace

Result<std::unique_ptr<StageBlocks>> StageBlocks::Make(HostPool& pool, Bytes stage_bytes,
                                                       const BlockBytes& wanted) {
  std::unique_ptr<StageBlocks> stage(new StageBlocks);
  const Bytes bytes = stage->block_bytes_ =
      std::max(Fitting(stage_bytes, wanted.most), wanted.least);
  const uint32_t count = uint32_t(std::max<Bytes>(stage_bytes / bytes, 1));
  for (uint32_t i = 0; i < count; ++i) {
    const bool more = i >= 2;
    auto block = pool.Take(bytes, bytes, more ? HostPool::For::kMoreStage : HostPool::For::kStage,
                           Deadline::InMs(kPinMs));
    // Two blocks that are pinned are faster than many that are not, and two are enough where more
    // would make the pool larger than was granted.
    if (more && (!block.ok() || (stage->pinned_ && !block->pinned()))) break;
    if (!block.ok()) return block.error();
    stage->pinned_ = stage->pinned_ && block->pinned();
    char* const memory = block->memory();
    stage->blocks_.push_back({std::move(*block), memory});
    stage->free_.push_back(i);
  }
  return stage;
}

StageBlocks::~StageBlocks() {
  for (const Block& block : blocks_) {
    if (!block.taken && block.memory != nullptr) {
      UnmapPages(block.memory, MappedBytes(block_bytes_));
    }
  }
}

uint32_t StageBlocks::TakeBlock() {
  const uint32_t block = free_.back();
  free_.pop_back();
  return block;
}

Result<void> StageBlocks::Unpin(uint32_t index, Bytes bytes) {
  auto memory = MapPages(MappedBytes(block_bytes_));
  if (!memory.ok()) return memory.error();
  Block& block = blocks_[index];
  memcpy(*memory, block.memory, bytes);
  block = {HostBlock(), *memory};
  pinned_ = false;
  return {};
}

void StageBlocks::Abandon() {
  for (Block& block : blocks_) {
    block.taken.Abandon();
    block.memory = nullptr;
  }
}

}  // namespace parkade::shim
