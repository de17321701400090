// Loads a checkpoint under another layout: other ranks, another bucket size, and when asked other
// encodings. Elements are found by parameter and place, never by size or order.
//
// What both sides encode alike is copied; so is a group of 32 of q8 or fp8 whose elements come from
// one group. A group that the cut joins from several is decoded and encoded again, to the nearest.
// In memory are at a time one source bucket, the wanted one, and its decoded values if needed.
#pragma once

#include <cstdint>
#include <vector>

#include "common/result.h"
#include "common/store/checkpoint.h"
#include "common/store/records.h"
#include "common/store/reshard_runs.h"

namespace parkade::store {

enum class Conversion {
  kRefuse,  // segments must be the same, in name and encoding
  kAllow,   // other encodings are converted, to the nearest; source segments not wanted are dropped
};

class Resharding {
 public:
  // Checks that every wanted element is there exactly once, and the segments; reads no bucket.
  // Both arguments outlive the object. FAILED_PRECONDITION as SourceIndex::RunsFor, and
  // MISSING_SEGMENT, EXTRA_SEGMENT, OTHER_ENCODING (also for raw segments that differ, and when
  // the ranks differ among themselves).
  static Result<Resharding> Plan(const Checkpoint& checkpoint, const Layout& wanted,
                                 Conversion conversion);

  // Makes a wanted bucket's file, all its Bucket::saved_bytes, and says its ties and the sum of its
  // weights. As Checkpoint::ReadBucket; DATA_LOSS BAD_TIE_MAP; FAILED_PRECONDITION RAW_GROUP_CUT;
  // as Encode when values do not fit another encoding. One thread.
  Result<void> MakeBucket(uint32_t bucket, std::vector<uint8_t>& bytes, BucketState& state);

  // Elements of q8, fp8 or converted segments that were encoded again so far.
  uint64_t reencoded() const { return reencoded_; }

 private:
  // A part of a run that lies in one source bucket.
  struct Copy {
    uint32_t rank = 0, bucket = 0;
    uint64_t source = 0, wanted = 0;  // positions in the buckets
    uint64_t numel = 0;
  };

  // Where a saved entry lies.
  struct Holder {
    uint32_t bucket;
    const Piece* piece;
  };

  Resharding(const Checkpoint& checkpoint, const Layout& wanted, SourceIndex index)
      : checkpoint_(&checkpoint), wanted_(&wanted), index_(std::move(index)) {}

  Result<void> MatchSegments(const Layout& source, uint32_t rank, Conversion conversion) const;
  Result<std::vector<Copy>> CopiesFor(const Bucket& bucket) const;

  const Checkpoint* checkpoint_;
  const Layout* wanted_;
  SourceIndex index_;
  std::vector<std::vector<std::vector<Holder>>> holders_;  // by rank and entry
  uint64_t reencoded_ = 0;
};

}  // namespace parkade::store
