// Verifier: reads the backups of ranges that are out, and compares their hashes with the digests of
// the bytes that left, on one thread and its crew. It touches no GPU and changes nothing.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
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

// What has been read, and what of it was wrong.
struct VerifyReport {
  MovedBytes read;  // `elided`: what is a pattern
  WrongBlocks wrong;
};

class Verifier {
 public:
  // Stops at the next block once `stop` is true, which like the driver outlives it.
  Verifier(const Driver& driver, Stage stage, const std::atomic<bool>& stop)
      : driver_(driver), stage_(std::move(stage)), stop_(stop) {}

  // Every block of a piece of `ranges` that is out. DATA_LOSS, BACKUP_CORRUPT or BACKUP_MISSING, of
  // the first that is wrong, when all have been read; CANCELLED; what the disk says. Nothing is in
  // flight afterwards.
  Result<void> Run(std::span<Range* const> ranges, VerifyReport* report);

 private:
  struct Job {
    const Range* range;
    const Block* block;
    uint32_t stage;  // that it is read to; kNoStage: it lies in host memory
  };
  static constexpr uint32_t kNoStage = UINT32_MAX;

  Result<void> ReadAll(std::span<Range* const> ranges, HashLane& hashes);
  Result<void> Start(const Range& range, const Block& block, HashLane& hashes);
  Result<void> OpenDisk(const Range& range);
  // Waits for something that is under way, if there is anything; then takes what else has ended.
  Result<void> Finish(HashLane& hashes);
  void FinishHashes(HashLane& hashes, Patience patience);
  Result<void> FinishReads(HashLane& hashes, Patience patience);
  void StartHash(uint32_t number, const char* memory, HashLane& hashes);
  bool IsPattern(const Block& block);
  void Count(const Job& job);

  const Driver& driver_;
  Stage stage_;
  const std::atomic<bool>& stop_;
  VerifyReport* report_ = nullptr;
  std::vector<Job> jobs_;          // by number
  std::vector<uint32_t> free_;     // numbers whose jobs have ended
  std::vector<uint32_t> reading_;  // numbers, by staging block
  // The last pattern that was looked at: neighbours often have the same.
  std::vector<char> filled_;
  Digest filled_digest_{};
  uint64_t filled_pattern_[2] = {};
};

}  // namespace parkade::shim
