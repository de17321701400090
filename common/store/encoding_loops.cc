// Decode and Encode: the loops over a range's elements and groups on the processor.
#include <cstring>

#include "common/store/encoding.h"

namespace parkade::store {
namespace {

template <typename T>
T Load(const uint8_t* from, uint64_t index) {
  T value;
  memcpy(&value, from + index * sizeof value, sizeof value);
  return value;
}

template <typename T>
void Put(uint8_t* to, uint64_t index, T value) {
  memcpy(to + index * sizeof value, &value, sizeof value);
}

// The random words of a range's elements, one Philox for four of them.
class Words {
 public:
  Words(const Rounding& rounding, Range range) : rounding_(rounding), begin_(range.begin) {}

  uint32_t At(uint64_t position) {
    if (rounding_.nearest) return kNearest;
    const uint64_t counter = rounding_.counter + (position - begin_);
    if (counter / 4 != quad_) {
      quad_ = counter / 4;
      words_ = RoundingBits(rounding_.key, rounding_.step, rounding_.segment, quad_);
    }
    return words_.word[counter % 4];
  }

 private:
  const Rounding& rounding_;
  const uint64_t begin_;
  uint64_t quad_ = ~uint64_t{0};
  RoundingWords words_ = {};
};

// The largest of a group's values in the range, as `what` makes it of each.
template <typename What>
float MostOf(const float* values, Range range, What what) {
  float most = 0;
  for (uint64_t i = range.begin; i < range.end; ++i) {
    const float value = what(values[i]);
    if (value > most) most = value;
  }
  return most;
}

// Calls `group(first position of the group, the part of it in the range)`.
template <typename Group>
void ForGroups(Range range, Group group) {
  for (uint64_t at = range.begin; at < range.end;) {
    const uint64_t start = at / kGroup * kGroup;
    const uint64_t end = start + kGroup < range.end ? start + kGroup : range.end;
    group(start, Range{at, end});
    at = end;
  }
}

// One code and one scale type; `value` makes what is encoded of an element (its magnitude or root),
// `scale` a scale of the largest, `open` a float of a scale, `code` a code of an element.
template <typename Scale, typename Value, typename MakeScale, typename Open, typename Code>
void EncodeGroups(const float* values, Range range, const Rounding& rounding, uint8_t* codes,
                  uint8_t* scales, Value value, MakeScale scale, Open open, Code code) {
  Words words(rounding, range);
  ForGroups(range, [&](uint64_t start, Range part) {
    const Scale stored = scale(MostOf(values, part, value));
    const float opened = open(stored);
    Put<Scale>(scales, start / kGroup, stored);
    memset(codes + start, 0, kGroup);
    for (uint64_t i = part.begin; i < part.end; ++i) {
      codes[i] = uint8_t(code(values[i], opened, words.At(i)));
    }
  });
}

template <typename Scale, typename Open, typename Value>
void DecodeGroups(const uint8_t* codes, const uint8_t* scales, Range range, float* values,
                  Open open, Value value) {
  ForGroups(range, [&](uint64_t start, Range part) {
    const float opened = open(Load<Scale>(scales, start / kGroup));
    for (uint64_t i = part.begin; i < part.end; ++i) values[i] = value(codes[i], opened);
  });
}

void SetTie(std::span<uint32_t> ties, uint64_t position, bool up) {
  const uint32_t bit = 1u << position % 32;
  uint32_t& word = ties[position / 32];
  word = up ? word | bit : word & ~bit;
}

float RootOf(float v) { return Sqrt(v); }

Error Unfit(Encoding encoding, float value, uint64_t position) {
  const char* reason = !IsFinite(value)              ? "NON_FINITE"
                       : encoding == Encoding::kFp16 ? "FP16_RANGE"
                                                     : "NEGATIVE_SECOND_MOMENT";
  return MakeError(Code::kFailedPrecondition, reason, "%s cannot hold %g, at position %llu",
                   NameOf(encoding), double(value), (unsigned long long)position);
}

}  // namespace

void Decode(const Segment& segment, const uint8_t* encoded, uint64_t numel, Range range,
            Weights weights, float* values) {
  const uint8_t* scales = encoded + ScalesAt(segment, numel);
  switch (segment.encoding) {
    case Encoding::kFp32:
      memcpy(values + range.begin, encoded + range.begin * 4, (range.end - range.begin) * 4);
      return;
    case Encoding::kBf16:
    case Encoding::kBf16Nearest:
      for (uint64_t i = range.begin; i < range.end; ++i) {
        values[i] = FromBf16(Load<uint16_t>(encoded, i));
      }
      return;
    case Encoding::kFp16:
      for (uint64_t i = range.begin; i < range.end; ++i) {
        values[i] = FromFp16(Load<uint16_t>(encoded, i));
      }
      return;
    case Encoding::kLo16:
      for (uint64_t i = range.begin; i < range.end; ++i) {
        const bool up = weights.ties[i / 32] >> i % 32 & 1u;
        values[i] = FromLo16(weights.bf16[i], Load<uint16_t>(encoded, i), up);
      }
      return;
    case Encoding::kQ8First:
      return DecodeGroups<uint16_t>(
          encoded, scales, range, values, FromBf16,
          [](uint8_t code, float scale) { return FromQ8First(int8_t(code), scale); });
    case Encoding::kQ8Second:
      return DecodeGroups<uint16_t>(encoded, scales, range, values, FromBf16, FromQ8Second);
    case Encoding::kFp8First:
      return DecodeGroups<uint8_t>(encoded, scales, range, values, FromE8M0, FromFp8First);
    case Encoding::kFp8Second:
      return DecodeGroups<uint8_t>(encoded, scales, range, values, FromE8M0, FromFp8Second);
    case Encoding::kRaw:
      return;
  }
}

Result<void> Encode(const Segment& segment, const float* values, uint64_t numel, Range range,
                    const Rounding& rounding, Weights weights, uint8_t* encoded) {
  const uint64_t unfit = FirstUnfit(segment.encoding, values, range);
  if (unfit != range.end) return Unfit(segment.encoding, values[unfit], unfit);
  uint8_t* scales = encoded + ScalesAt(segment, numel);
  Words words(rounding, range);
  switch (segment.encoding) {
    case Encoding::kFp32:
      memcpy(encoded + range.begin * 4, values + range.begin, (range.end - range.begin) * 4);
      break;
    case Encoding::kBf16:
      for (uint64_t i = range.begin; i < range.end; ++i) {
        Put(encoded, i, ToBf16By(values[i], words.At(i)));
      }
      break;
    case Encoding::kBf16Nearest:
      for (uint64_t i = range.begin; i < range.end; ++i) Put(encoded, i, ToBf16(values[i]));
      break;
    case Encoding::kFp16:
      for (uint64_t i = range.begin; i < range.end; ++i) Put(encoded, i, ToFp16(values[i]));
      break;
    case Encoding::kLo16:
      for (uint64_t i = range.begin; i < range.end; ++i) {
        const Lo16 split = ToLo16(values[i]);
        Put(encoded, i, split.low);
        weights.bf16[i] = split.weight;
        SetTie(weights.ties, i, split.tie_up);
      }
      break;
    case Encoding::kQ8First:
      EncodeGroups<uint16_t>(values, range, rounding, encoded, scales, Magnitude, ScaleBf16,
                             FromBf16, ToQ8First);
      break;
    case Encoding::kQ8Second:
      EncodeGroups<uint16_t>(
          values, range, rounding, encoded, scales, RootOf, ScaleBf16, FromBf16,
          [](float v, float scale, uint32_t word) { return ToQ8Second(Sqrt(v), scale, word); });
      break;
    case Encoding::kFp8First:
      EncodeGroups<uint8_t>(values, range, rounding, encoded, scales, Magnitude, ScaleE8M0,
                            FromE8M0, ToFp8First);
      break;
    case Encoding::kFp8Second:
      EncodeGroups<uint8_t>(
          values, range, rounding, encoded, scales, RootOf, ScaleE8M0, FromE8M0,
          [](float v, float scale, uint32_t word) { return ToFp8Second(Sqrt(v), scale, word); });
      break;
    case Encoding::kRaw:
      break;
  }
  return {};
}

}  // namespace parkade::store
