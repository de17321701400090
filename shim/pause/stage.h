// Stage: what bytes pass through on one mover thread, made when it is first needed: blocks of host
// memory, and the disk behind them.
#pragma once

#include <memory>

#include "shim/pause/disk_stage.h"
#include "shim/pause/stage_blocks.h"

namespace parkade::shim {

// One thread.
struct Stage {
  // All outlive it.
  HostPool& pool;
  const DirectFiles& files;
  MakeEngine make_engine;
  LedgerWriter& ledger;
  size_t lanes;  // that use the files at once
  Bytes bytes;   // of host memory, at most

  std::unique_ptr<StageBlocks> blocks = {};  // null: none were needed yet
  std::unique_ptr<DiskStage> disk = {};      // likewise

  // From now on there are both. Under the context for whose GPU the memory is to be pinned. Errors
  // as StageBlocks::Make.
  Result<void> OpenDisk();
  // Whether there are blocks of pinned memory, for bytes on their way to and from memory that is
  // not. Without them the driver copies straight there, through a stage of its own.
  bool OpenHost();
  bool disk_works() const { return disk != nullptr && !disk->idle(); }
  // Waits for what is in flight, as DiskStage does.
  void Close();
};

}  // namespace parkade::shim
