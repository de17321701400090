// Builds the bytes of one bucket out of parts of other buckets' bytes.
//
// Announce all parts, then for each source bucket From and an Add of each of its parts, then
// Finish. Used by one thread; knows nothing of files, ranks and names.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/result.h"
#include "common/store/layout.h"
#include "common/store/records.h"

namespace parkade::store {

class BucketBuilder {
 public:
  // Elements that follow each other in both buckets, by position.
  struct Part {
    uint64_t source = 0, wanted = 0, numel = 0;
  };

  // `bytes` becomes the bucket's saved bytes; both outlive the builder.
  BucketBuilder(const Layout& wanted, uint32_t bucket, std::vector<uint8_t>& bytes);

  // `source` is a number for the bucket that the part comes from.
  void Announce(uint64_t source, const Part& part);
  // The bytes of the source bucket whose parts come next; they stay as they are until then.
  // DATA_LOSS BAD_TIE_MAP.
  Result<void> From(const Layout& source, uint32_t bucket, std::span<const uint8_t> bytes,
                    uint32_t ties);
  // FAILED_PRECONDITION RAW_GROUP_CUT.
  Result<void> Add(const Part& part);
  // Encodes what could not be copied; as Encode. Fills the state's ties and weight_sum.
  Result<void> Finish(BucketState& state);

  uint64_t reencoded() const { return reencoded_; }

 private:
  // How a wanted segment is made.
  struct Making {
    const Segment* source = nullptr;
    const Area* area = nullptr;
    bool same = false;          // both in the same encoding
    std::vector<float> values;  // decoded, by wanted position; empty until needed
  };

  void CopyUnits(const Making& making, size_t segment, const Part& part);
  Result<void> CopyGroups(Making& making, size_t segment, const Part& part);
  void DecodeInto(Making& making, const Part& part);
  Result<void> EncodeGroups(size_t segment);
  bool IsWhole(uint64_t group) const { return group_source_[group] != kMixed; }
  uint8_t* BytesOf(size_t segment) { return bytes_.data() + bucket_.segments[segment].offset; }

  static constexpr uint64_t kNone = ~uint64_t{0}, kMixed = kNone - 1;

  const Layout& wanted_;
  const Bucket& bucket_;
  std::vector<uint8_t>& bytes_;
  std::vector<uint16_t> weights_;  // of a wanted lo16 segment
  std::vector<uint32_t> ties_;
  // For each wanted group a number of the source group that all its elements come from.
  std::vector<uint64_t> group_source_;
  std::vector<uint64_t> group_bucket_;
  std::vector<Making> makings_;
  const Layout* source_ = nullptr;
  const Bucket* source_bucket_ = nullptr;
  std::span<const uint8_t> source_bytes_;
  std::vector<uint16_t> source_weights_;
  std::vector<uint32_t> source_ties_;
  std::vector<float> scratch_;  // decoded, by source position
  uint64_t reencoded_ = 0;
};

}  // namespace parkade::store
