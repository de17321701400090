// Makes a stage's blocks and its disk.
#include "shim/pause/stage.h"

#include <algorithm>
#include <utility>

#include "common/hash/block_hash.h"

namespace parkade::shim {

Result<void> Stage::OpenDisk() {
  if (disk != nullptr) return {};
  if (blocks == nullptr) {
    auto made = StageBlocks::Make(pool, bytes, {files.setting().block, kHashBlock});
    if (!made.ok()) return made.error();
    blocks = std::move(*made);
  }
  disk = std::make_unique<DiskStage>(*blocks, files, lanes, make_engine, ledger);
  return {};
}

bool Stage::OpenHost() {
  if (blocks == nullptr) {
    auto made = StageBlocks::Make(pool, std::min(bytes, kHostStage), {.least = kHashBlock});
    if (!made.ok()) return false;
    blocks = std::move(*made);
  }
  return blocks->pinned();
}

void Stage::Close() {
  disk.reset();
  blocks.reset();
}

}  // namespace parkade::shim
