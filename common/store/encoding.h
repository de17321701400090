// How a segment's elements stand in bytes: the encodings, their sizes, and both ways on the
// processor. The arithmetic is encode_math.h's; the GPU has loops of its own over the same bytes.
//
// A segment of a bucket holds `numel` elements, a multiple of 32, whose value at padding positions
// is zero. Its bytes, little-endian:
//   fp32        4 each
//   bf16, fp16  2 each
//   q8          1 each, all of them first, then a bf16 scale for each group of 32
//   fp8         1 each, all of them first, then an E8M0 scale for each group of 32
//   lo16        2 each, the low half; the high half is the resident weight's, and ties.h's map
//   raw         raw_group_bytes for each group of 32, whose meaning only their owner knows
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/bytes.h"
#include "common/result.h"
#include "common/store/encode_math.h"

namespace parkade::store {

// The numbers stand in files.
enum class Encoding : uint32_t {
  kFp32 = 1,
  kBf16 = 2,         // stochastic rounding
  kBf16Nearest = 3,  // freezes a second moment at beta2 = 0.999: its steps are below half a unit
  kFp16 = 4,         // nearest; a second moment below 6e-8 is lost
  kQ8First = 5,
  kQ8Second = 6,
  kFp8First = 7,
  kFp8Second = 8,
  kLo16 = 9,
  kRaw = 10,
};

// One state that every element has.
struct Segment {
  std::string name;  // "main", "exp_avg", "exp_avg_sq", or another library's
  Encoding encoding = Encoding::kFp32;
  // kRaw only, otherwise 0: bytes for 32 elements, 1 to 1024. A multiple of 32 means that many
  // bytes per element, one element after the other, so that a group may be cut.
  uint32_t raw_group_bytes = 0;
};

// The encoding that `text` names for the segment `segment`: fp32, bf16, bf16-nearest, fp16, lo16,
// raw, or q8 and fp8, which are for moments: for the second one where the segment's name ends in
// "_sq", otherwise for the first. INVALID_ARGUMENT for others (UNKNOWN_ENCODING), for a bare cast
// to fp8, "e4m3" or "e5m2" (BARE_FP8), and for what the segment "main" cannot be in
// (ENCODING_OF_MAIN); lo16 is for main alone (LO16_OF_MOMENT).
Result<Encoding> ParseEncoding(std::string_view text, std::string_view segment);
// As ParseEncoding reads it, q8 and fp8 without saying which moment. "" for a number that is none.
const char* NameOf(Encoding encoding);
// Whether a file's number is one of Encoding's.
bool IsEncoding(uint32_t number);

// Elements that must be decoded or encoded together.
bool HasGroups(const Segment& segment);
// Whether rounding depends on RoundingKey.
bool IsStochastic(Encoding encoding);

// Bytes of `numel` elements, with scales, without the padding to 4096 behind a segment. `numel` is
// a multiple of 32, at most 2^32.
Bytes EncodedBytes(const Segment& segment, uint64_t numel);
// Where the scales begin in them; EncodedBytes where there are none.
Bytes ScalesAt(const Segment& segment, uint64_t numel);

// Which of a segment's elements to work on: positions [begin, end) in the bucket. Where the
// encoding has groups, both are multiples of 32 or the ends of a piece (layout.h): what a piece
// leaves of its groups is padding.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Where the random bits of a range come from.
struct Rounding {
  uint64_t key = 0;      // RoundingKey
  uint64_t step = 0;     // that the values belong to
  uint32_t segment = 0;  // its index in the store's list
  uint64_t counter = 0;  // of the element at Range::begin: Piece::counter and on
  bool nearest = false;  // no random bits: to the nearest
};

// The resident bf16 weights that belong to a lo16 segment, by position in the bucket, and the map
// of ties, one bit each by position (bit i % 32 of word i / 32); see ties.h. For others: empty.
struct Weights {
  std::span<uint16_t> bf16;
  std::span<uint32_t> ties;
};

// The first position of the range whose value the encoding cannot hold: one that is not finite, a
// second moment below zero (q8, fp8), one above fp16's range; `end` if there is none. fp32 and lo16
// hold everything. `values` is indexed by position. Any thread.
uint64_t FirstUnfit(Encoding encoding, const float* values, Range range);

// Makes `values`, by position, of the range's bytes in `encoded`, which is all of the segment's
// bytes of a bucket of `numel` elements. Not for kRaw. Any thread.
void Decode(const Segment& segment, const uint8_t* encoded, uint64_t numel, Range range,
            Weights weights, float* values);

// The reverse; for lo16 it also writes the range's weights and bits of the map. Positions of the
// range's groups outside the range become zero. NON_FINITE (or NEGATIVE_SECOND_MOMENT, FP16_RANGE)
// names the first position as FirstUnfit does, and nothing is written. Not for kRaw. Any thread.
Result<void> Encode(const Segment& segment, const float* values, uint64_t numel, Range range,
                    const Rounding& rounding, Weights weights, uint8_t* encoded);

// The checksum of a range's weights (WeightTerm); a bucket's is the sum over its pieces, modulo
// 2^64. It is kept with a bucket's record, so that weights changed outside a step are noticed.
uint64_t WeightSum(const uint16_t* weights, Range range);

}  // namespace parkade::store
