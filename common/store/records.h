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
  // kTorn: the torn ones. kInterrupted: those that are not at `step`, or of a store that was never
  // filled, the unfilled ones. Ascending.
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
    uint32_t files = 0;  // as many as buckets; kRotate: at least one more; kShadow: twice as many
    uint64_t boot = 0;   // ThisBoot()

    bool IsRight() const;
  };

  StateFile() = default;

  // Writes a new state file into `fd`, an empty regular file open for reading and writing, which it
  // takes over. No bucket is filled: the first step that begins is the filling, 0 or a
  // checkpoint's. INVALID_ARGUMENT BAD_SHAPE; otherwise as OsError.
  static Result<StateFile> Create(Fd fd, const Shape& shape);
  // Reads one and says in `report` how the store stands; a store that is not clean takes no step.
  // FAILED_PRECONDITION NOT_A_STORE, STORE_VERSION or OTHER_LAYOUT, DATA_LOSS DAMAGED_HEADER or
  // SHORT_FILE when that cannot be said. Writes nothing.
  static Result<StateFile> Open(Fd fd, const Digest& layout, uint64_t boot, StateReport& report);

  const Shape& shape() const { return shape_; }
  uint64_t committed() const { return committed_; }  // kNoStep: not yet filled
  const BucketState& bucket(uint32_t bucket) const { return places_[bucket].state; }

  // All of the following: owner's thread; FAILED_PRECONDITION STEP_ORDER when called out of order,
  // and otherwise as OsError: then the store's standing is what Open will say.

  // `step` is committed() + 1, or any when nothing is committed. FAILED_PRECONDITION NOT_CLEAN.
  Result<void> BeginStep(uint64_t step);
  // Says which file the bucket's new bytes go to. kInplace marks it as torn until EndBucket.
  // FAILED_PRECONDITION NO_SPARE_FILE: for kRotate, another bucket that has begun must end first.
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
  enum class Progress : uint8_t { kNone, kBegun, kEnded };
  // A bucket, and where its record stands.
  struct Place {
    BucketState state;
    uint32_t slot = 0;                    // of the pair, the one that holds `state`
    uint64_t sequence = 0;                // of the newer record of the pair
    Progress progress = Progress::kNone;  // in the step under way
    uint32_t target = 0;                  // file of the new bytes, once begun
    BucketState before;                   // kShadow: at the committed step, and its slot
    uint32_t before_slot = 0;
  };

  Result<void> WriteStep(uint64_t committed, uint64_t under_way);
  Result<void> WriteBucket(uint32_t bucket, uint32_t phase, const BucketState& state);
  Result<void> ReadHeader(const Digest& layout);
  Result<void> ReadBuckets(StateReport& report);
  void Judge(StateReport& report, const std::vector<uint32_t>& torn);
  void FindSpares();

  Fd fd_;
  Shape shape_;
  Standing standing_ = Standing::kClean;
  uint64_t committed_ = kNoStep;
  uint64_t under_way_ = kNoStep;
  uint64_t step_sequence_ = 0;
  std::vector<Place> places_;
  std::vector<uint32_t> spares_;  // kRotate: files that hold nothing
};

// A number for this boot of the machine, from /proc/sys/kernel/random/boot_id; as OsError.
Result<uint64_t> ThisBoot();

}  // namespace parkade::store
