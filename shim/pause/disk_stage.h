// DiskStage: pinned staging blocks between the GPU and files, with the engine that reads and writes
// them. Its blocks are all the host memory that a move to or from disk uses.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/io/direct_files.h"
#include "common/io/io_engine.h"
#include "shim/pause/file_space.h"
#include "shim/pause/host_pool.h"

namespace parkade::shim {

// Makes an engine for `depth` requests in flight; tests put their own in its place.
using MakeEngine = IoEngineChoice (*)(uint32_t depth);
// io_uring, else threads of the shim.
IoEngineChoice MakeShimEngine(uint32_t depth);

// Bytes in each block of a stage of `stage_bytes`.
Bytes StageBlockBytes(Bytes stage_bytes);

// One thread.
class DiskStage {
 public:
  // What the end of a transfer says: which block, and whether its bytes are there.
  struct Done {
    uint32_t block;
    Result<void> result;
  };

  // Takes `stage_bytes` of the pool. `files` outlives it. *refusal is why it is not io_uring.
  static Result<std::unique_ptr<DiskStage>> Make(HostPool& pool, const DirectFiles& files,
                                                 Bytes stage_bytes, MakeEngine make_engine,
                                                 std::optional<Error>* refusal);
  // Waits for what is in flight, a minute at most; a disk that hangs longer keeps its memory.
  ~DiskStage();

  Bytes block_bytes() const { return block_bytes_; }
  char* memory(uint32_t block) const { return blocks_[block].memory(); }
  bool has_free() const { return !free_.empty(); }
  uint32_t TakeBlock();
  void GiveBlock(uint32_t block) { free_.push_back(block); }

  // Between a block's memory and a part of a file; the block is the engine's until its Done.
  Result<void> Write(uint32_t block, const FileSpace::Part& part);
  Result<void> Read(uint32_t block, const FileSpace::Part& part);
  bool idle() const { return engine_->in_flight() == 0; }
  // One that has ended; nullopt when none has. kWait blocks until one has, and fails with
  // DEADLINE_EXCEEDED DISK_STALLED when a minute passes without.
  enum class Patience : uint8_t { kLook, kWait };
  Result<std::optional<Done>> Next(Patience patience);
  // After the last write: what buffered files still have to write back.
  Result<void> Flush() { return page_cache_.Flush(); }

 private:
  explicit DiskStage(const DirectFiles& files) : page_cache_(files) {}
  Result<void> Submit(IoRequest::Kind kind, uint32_t block, const FileSpace::Part& part);

  struct Transfer {
    IoRequest::Kind kind;
    FileSpace::Part part;
  };

  Bytes block_bytes_ = 0;
  std::vector<HostBlock> blocks_;
  std::vector<uint32_t> free_;
  std::vector<Transfer> transfers_;  // by block
  PageCacheLimit page_cache_;
  std::unique_ptr<IoEngine> engine_;  // last: gone before the memory it writes to
};

}  // namespace parkade::shim
