// DiskStage: moves the blocks of a stage to and from files.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "common/io/direct_files.h"
#include "common/io/io_engine.h"
#include "common/io/page_cache.h"
#include "shim/heap/ledger_writer.h"
#include "shim/pause/file_space.h"
#include "shim/pause/patience.h"
#include "shim/pause/stage_blocks.h"

namespace parkade::shim {

// Makes an engine for `depth` requests in flight; tests put their own in its place.
using MakeEngine = IoEngineChoice (*)(uint32_t depth);
// io_uring, else threads of the shim.
IoEngineChoice MakeShimEngine(uint32_t depth);

// One thread.
class DiskStage {
 public:
  // What the end of a transfer says: which block, and whether its bytes are there.
  struct Done {
    uint32_t block;
    Result<void> result;
  };

  // One of `lanes` that use the files at once. All outlive it. Says once in the ledger what is
  // slower than it could be.
  DiskStage(StageBlocks& blocks, const DirectFiles& files, size_t lanes, MakeEngine make_engine,
            LedgerWriter& ledger);
  // Waits for what is in flight, a minute at most; a disk that hangs longer keeps the memory.
  ~DiskStage();

  // Between a block's memory and a part of a file; the block is the engine's until its Done. What
  // goes beyond the depth that suits the files begins when something else has ended.
  Result<void> Write(uint32_t block, const FileSpace::Part& part);
  Result<void> Read(uint32_t block, const FileSpace::Part& part);
  bool idle() const { return engine_->in_flight() == 0 && waiting_.empty(); }
  // One that has ended; nullopt when none has. kWait blocks until one has, and fails with
  // DEADLINE_EXCEEDED DISK_STALLED when a minute passes without.
  Result<std::optional<Done>> Next(Patience patience);
  // After the last write: what buffered files still have to write back.
  Result<void> Flush() { return page_cache_.Flush(); }

 private:
  struct Transfer {
    IoRequest::Kind kind;
    FileSpace::Part part;
  };

  Result<void> Take(IoRequest::Kind kind, uint32_t block, const FileSpace::Part& part);
  Result<void> Submit(uint32_t block);
  Result<void> SubmitUnpinned(uint32_t block);
  Result<void> SubmitWaiting();
  Result<void> Look(const Transfer& transfer);
  void WarnOfCache(const char* why);

  StageBlocks& blocks_;
  LedgerWriter& ledger_;
  std::vector<Transfer> transfers_;  // by block
  std::deque<uint32_t> waiting_;     // blocks whose transfer has not begun
  uint32_t depth_;                   // most transfers under way now
  PageCacheLimit page_cache_;
  bool registered_ = false;  // the blocks' memory, with the engine
  bool all_direct_ = true;   // as far as is known
  bool stalled_ = false;
  std::unique_ptr<IoEngine> engine_;
};

}  // namespace parkade::shim
