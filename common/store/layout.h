// Where every element of a store lies: entries cut into flat buckets, one file each.
//
// A bucket is a run of positions that all segments share. Entries follow each other in the given
// order, each from a multiple of 32 on; element i of a parameter's local tensor stands at a
// position that is i modulo 32, so that groups of 32 are groups of the parameter whatever the cut.
// An entry that does not fit is split, on such a boundary. Positions without an element are
// padding, and hold zero.
//
// A bucket's file has no header: the segments in order, each padded to 4096; behind them, for a
// lo16 segment, the area of its tie map, and in checkpoints and shadow copies its bf16 weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/bytes.h"
#include "common/hash/block_hash.h"
#include "common/result.h"
#include "common/store/encoding.h"

namespace parkade::store {

constexpr uint64_t kLeastAutoBucket = 16u << 20;       // elements
constexpr uint64_t kMostBucket = 200'000'000;          // elements
constexpr uint64_t kMostElements = uint64_t{1} << 48;  // of one rank's store, and of a tensor
constexpr uint32_t kMostBuckets = 1u << 20;
constexpr uint32_t kMostSegments = 16;
constexpr uint32_t kMostAxes = 16;
constexpr size_t kMostName = 4096;  // bytes
constexpr Bytes kFileAlign = 4096;

// A contiguous piece of one parameter that this rank owns.
struct Entry {
  std::string name;  // of the parameter, the same in every layout: global layer, expert numbers
  std::vector<uint64_t> global_shape;  // empty: one element
  int32_t tp_axis = -1;                // the axis that tensor parallelism cuts; -1: whole here
  uint64_t tp_offset = 0;              // of the local tensor along that axis
  std::vector<uint64_t> local_shape;   // as global_shape but along that axis
  uint64_t flat_begin = 0;             // the range of the row-major local tensor that is here;
  uint64_t flat_end = 0;               // both equal: nothing is
  uint32_t group = 0;                  // of the optimizer's parameters; not part of the layout
  uint64_t user_tag = 0;               // handed back with its pieces; not part of the layout
  // Not 0: a copy of what another rank has too (a norm's weight under tensor parallelism), which a
  // load under another layout leaves aside. Not part of the layout.
  uint32_t replica = 0;
};

// A part of an entry in one bucket.
struct Piece {
  uint32_t entry = 0;        // index in Layout::entries
  uint64_t param_begin = 0;  // range of the local tensor
  uint64_t param_end = 0;
  uint64_t position = 0;  // in the bucket, of param_begin
  // The number of its first element among the rounding bits of the parameter (RoundingBits); the
  // next ones count on. Every element of the global tensor has its own, the same for any bucket
  // size and data-parallel cut, and for any cut along axis 0.
  uint64_t counter = 0;

  uint64_t numel() const { return param_end - param_begin; }
  Range positions() const { return {position, position + numel()}; }
};

// A part of a bucket's file.
struct Area {
  Bytes offset = 0;  // a multiple of 4096
  Bytes bytes = 0;   // that mean something; up to the next multiple of 4096 the file has zeros
};

struct Bucket {
  uint64_t numel = 0;  // positions, a multiple of 32
  std::vector<Piece> pieces;
  std::vector<Area> segments;  // as Layout::segments
  Area ties;                   // as ties.h fills it; empty without a lo16 segment
  Area weights;                // bf16 by position, not in live files; empty without lo16
  Bytes live_bytes = 0;        // of a live file: up to the end of the ties
  Bytes saved_bytes = 0;       // of a copy that must stand for itself: up to the weights' end
};

// The number that a parameter's rounding bits depend on: of its name alone.
uint64_t ParameterId(std::string_view name);

// How many elements a shape has; INVALID_ARGUMENT TOO_LARGE above kMostElements.
Result<uint64_t> NumelOf(const std::vector<uint64_t>& shape);

class Layout {
 public:
  Layout() = default;  // of nothing

  // `bucket_numel` 0 means the elements' number by 32, at least 16 Mi and at most 200 M; others are
  // rounded up to 32. INVALID_ARGUMENT names the entry and what is wrong: NO_NAME, DUPLICATE_NAME,
  // BAD_SHAPE, BAD_RANGE, BAD_SEGMENT, BUCKET_SIZE, TOO_LARGE. Zero entries make zero buckets.
  static Result<Layout> Make(std::vector<Entry> entries, std::vector<Segment> segments,
                             uint64_t bucket_numel = 0);

  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<Segment>& segments() const { return segments_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  uint64_t bucket_numel() const { return bucket_numel_; }
  uint64_t numel() const { return numel_; }  // of the entries, without padding
  // Index of the lo16 segment, or -1. There is one at most.
  int lo16() const { return lo16_; }
  // Index of an entry, or -1.
  int64_t Find(std::string_view name) const;
  // Of names, shapes, ranges, segments and the buckets' size: whatever the bytes depend on.
  const Digest& hash() const { return hash_; }
  Bytes live_bytes() const;

 private:
  Result<void> Cut();  // fills buckets_
  void Stamp();        // fills hash_

  std::vector<Entry> entries_;
  std::vector<Segment> segments_;
  std::vector<Bucket> buckets_;
  std::vector<uint32_t> by_name_;  // indexes of entries_ in the order of their names
  uint64_t bucket_numel_ = 0;
  uint64_t numel_ = 0;
  int lo16_ = -1;
  Digest hash_ = {};
};

}  // namespace parkade::store
