// The state file of a live store: which step its buckets are at, so that after a crash a torn or
// mixed state is never taken for a whole one. It says nothing about checkpoints.
//
// 4 KiB of header, then 128 bytes for each bucket: two records of 64 bytes, of which the newer
// whole one counts; the other is overwritten next. The header has a fixed part and such a pair for
// the step. All are written by one pwrite each, without fsync: they survive the process, and what a
// machine's crash leaves is void.
//
// A step: BeginStep; for each bucket, in any order, BeginBucket before its first byte is written
// and EndBucket when its last is; CommitStep. Filling a new store goes the same way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/hash/block_hash.h"
#include "common/result.h"

namespace parkade::store {

// What is kept of the old bytes of a bucket while its new ones are written.
enum class Redundancy : uint32_t {
  kInplace = 1,  // nothing: one file for each bucket
  kRotate = 2,   // they stay whole until the new ones are: some spare files more
  kShadow = 3,   // they stay whole until the step is committed: two files for each bucket
};

constexpr uint64_t kNoStep = ~uint64_t{0};

// A bucket as its record tells.
struct BucketState {
  uint64_t step = kNoStep;  // kNoStep: never filled
  uint32_t file = 0;        // number of the file that holds it
  bool main_only = false;   // the segments after the first are zero, and their bytes unwritten
  uint32_t ties = 0;        // set bits of the tie map (ties.h)
  uint64_t weight_sum = 0;  // of a lo16 bucket's weights (WeightSum)
};

enum class Standing : uint32_t {
  kClean = 1,        // all buckets are whole, at one step
  kTorn = 2,         // some bucket's bytes are half old, half new, or its record is unreadable
  kInterrupted = 3,  // each bucket is whole, but they are at different steps, or not all filled
  kVoid = 4,         // written before this machine's last boot: nothing is known
};

struct StateReport {
  Standing standing = Standing::kVoid;
  uint64_t step = kNoStep;   // kClean: that all are at; otherwise that was committed last
  bool rolled_back = false;  // kClean by giving up a step that had begun (kShadow)
  // kTorn: the torn ones. kInterrupted: those that are not at `step`. Ascending.
  std::vector<uint32_t> buckets;
  // For people: the standing, the steps and the first of the buckets. "" when clean.
  std::string text;
};

class StateFile {
 public:
  // What a store is created with.
  struct Shape {
    Digest layout = {};
    uint32_t buckets = 0;
    Redundancy redundancy = Redundancy::kInplace;
    uint32_t files = 0;  // buckets; kRotate: at least one more; kShadow: twice as many
    uint64_t boot = 0;   // ThisBoot()
  };

  StateFile() = default;

  // Writes a new state file into `fd`, an empty regular file open for reading and writing, which it
  // takes over. No bucket is filled: the first step that begins is the filling, 0 or a
  // checkpoint's. INVALID_ARGUMENT BAD_SHAPE; otherwise as OsError.
  static Result<StateFile> Create(Fd fd, const Shape& shape);
  // Reads one and says in `report` how the store stands; a store that is not clean takes no step.
  // FAILED_PRECONDITION NOT_A_STORE, STORE_VERSION or OTHER_LAYOUT, DATA_LOSS DAMAGED_HEADER when
  // that cannot be said.
  static Result<StateFile> Open(Fd fd, const Digest& layout, uint64_t boot, StateReport& report);

  const Shape& shape() const { return shape_; }
  uint64_t committed() const { return committed_; }  // kNoStep: not yet filled
  const BucketState& bucket(uint32_t bucket) const { return states_[bucket]; }

  // All of the following: owner's thread; FAILED_PRECONDITION STEP_ORDER when called out of order,
  // and otherwise as OsError: then the store's standing is what Open will say.

  // `step` is committed() + 1, or any when nothing is committed.
  Result<void> BeginStep(uint64_t step);
  // Says which file the bucket's new bytes go to. kInplace marks it as torn until EndBucket.
  Result<uint32_t> BeginBucket(uint32_t bucket);
  // The bucket's bytes are all written to the file that BeginBucket named; `state.step` and
  // `state.file` are ignored.
  Result<void> EndBucket(uint32_t bucket, const BucketState& state);
  // Every bucket has ended.
  Result<void> CommitStep();
  // Gives the step up. FAILED_PRECONDITION STEP_UNDER_WAY once a bucket has begun, unless the
  // redundancy is kShadow, which goes back to the committed step.
  Result<void> AbortStep();

 private:
  Fd fd_;
  Shape shape_;
  uint64_t committed_ = kNoStep;
  uint64_t under_way_ = kNoStep;
  uint64_t header_sequence_ = 0;
  std::vector<BucketState> states_;
  std::vector<uint64_t> sequences_;  // of each bucket's newer record
  std::vector<uint32_t> spare_;      // files that hold nothing (kRotate), a queue
};

// A number for this boot of the machine, from /proc/sys/kernel/random/boot_id; as OsError.
Result<uint64_t> ThisBoot();

}  // namespace parkade::store
