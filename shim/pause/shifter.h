// Shifter: moves backups of ranges that are out between files and host memory, through a stage, on
// one thread and its crew. It touches no GPU.
//
// Each block is verified on its way. It is in its new place once it is whole there, and where it
// was until then; one that is wrong stays there, and the others go on.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "shim/cuda/driver.h"
#include "shim/heap/range.h"
#include "shim/pause/hash_crew.h"
#include "shim/pause/move_tools.h"
#include "shim/pause/range_backing.h"
#include "shim/pause/stage.h"
#include "shim/pause/wrong_blocks.h"

namespace parkade::shim {

// What has moved, what was to move and has not, and what of it was wrong.
struct ShiftReport {
  MovedBytes moved;
  Bytes left = 0;
  WrongBlocks wrong;
};

class Shifter {
 public:
  enum class To : uint8_t { kHost, kFiles };

  // What of `ranges` is to move there: blocks that lie in files alone, or those in host memory that
  // may move on.
  static Bytes BytesToMove(To to, std::span<Range* const> ranges);

  // Begins no further block once `stop` is true: what is under way is finished (CANCELLED). All
  // outlive it.
  Shifter(const Driver& driver, Stage stage, To to, std::span<Range* const> ranges,
          const std::atomic<bool>& stop);

  // One of the two, once. To host memory of the pool, as far as `grant` goes; the bytes keep their
  // places in the files. DATA_LOSS of the first block that is wrong, when all have been looked at;
  // HOST_MEMORY; CANCELLED; what the disk says.
  Result<void> ToHost(Bytes grant, ShiftReport* report);
  // To places in `space`; the host memory of what is on the disk is given back to the pool.
  // Likewise, and DISK_SPACE when there is none left for some.
  Result<void> ToFiles(FileSpace& space, ShiftReport* report);

 private:
  struct BlockAt {
    Range* range = nullptr;
    uint32_t block = 0;  // of its backing
  };

  static RangeBacking* BackingOf(const Range& range);
  static Block& At(BlockAt at) { return BackingOf(*at.range)->blocks[at.block]; }
  static bool IsToMove(To to, const Range& range, const Block& block);

  // Gives the blocks of a range their places in files, cut in two where no one piece is left.
  Result<void> Place(Range& range, FileSpace& space);
  bool Cut(Range& range, uint32_t block, Bytes bytes);
  Result<void> Run();
  Result<void> MoveAll();
  Result<bool> TakeHost(Range& range, uint32_t first);
  Result<void> Start(BlockAt at);
  // Waits for something that is under way, if there is anything; then takes what else has ended.
  Result<void> Finish();
  Result<void> FinishCopies(Patience patience);
  Result<void> FinishTransfers(Patience patience);
  void Copy(uint32_t stage);
  Result<void> Written(BlockAt at);
  // What has been written may be believed to be on the disk: it leaves host memory.
  Result<void> Flush();
  // Takes the places back that nothing has come to.
  void Unplace();

  const Driver& driver_;
  Stage stage_;
  const To to_;
  const std::span<Range* const> ranges_;
  const std::atomic<bool>& stop_;
  ShiftReport* report_ = nullptr;
  Bytes grant_left_ = 0;
  FilePart space_{};              // of the files, taken and not given to a block yet
  std::vector<BlockAt> moving_;   // by staging block
  std::vector<BlockAt> written_;  // and not flushed yet
  Bytes written_bytes_ = 0;
  HashCrew crew_;
  HashLane hashes_;
};

}  // namespace parkade::shim
