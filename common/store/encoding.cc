// Names and sizes of the encodings, and which values they can hold.
#include "common/store/encoding.h"

namespace parkade::store {
namespace {

struct Named {
  Encoding encoding;
  const char* name;
};
constexpr Named kNames[] = {
    {Encoding::kFp32, "fp32"},
    {Encoding::kBf16, "bf16"},
    {Encoding::kBf16Nearest, "bf16-nearest"},
    {Encoding::kFp16, "fp16"},
    {Encoding::kQ8First, "q8"},
    {Encoding::kQ8Second, "q8"},
    {Encoding::kFp8First, "fp8"},
    {Encoding::kFp8Second, "fp8"},
    {Encoding::kLo16, "lo16"},
    {Encoding::kRaw, "raw"},
};

bool IsBareFp8(std::string_view text) {
  return text.find("e4m3") != text.npos || text.find("e5m2") != text.npos;
}

bool IsSecond(std::string_view segment) { return segment.ends_with("_sq"); }

// Bytes of an element's code, scales apart.
Bytes CodeBytes(Encoding encoding) {
  switch (encoding) {
    case Encoding::kFp32:
      return 4;
    case Encoding::kBf16:
    case Encoding::kBf16Nearest:
    case Encoding::kFp16:
    case Encoding::kLo16:
      return 2;
    case Encoding::kQ8First:
    case Encoding::kQ8Second:
    case Encoding::kFp8First:
    case Encoding::kFp8Second:
      return 1;
    case Encoding::kRaw:
      return 0;
  }
  return 0;
}

}  // namespace

Result<Encoding> ParseEncoding(std::string_view text, std::string_view segment) {
  const int length = int(text.size() < 40 ? text.size() : 40);
  if (IsBareFp8(text)) {
    return MakeError(
        Code::kInvalidArgument, "BARE_FP8",
        "%.*s: a cast without scales turns every second moment below 2e-3 into zero, by "
        "which Adam divides; say q8 (or fp8, which has a scale for each 32)",
        length, text.data());
  }
  for (const Named& named : kNames) {
    if (text != named.name) continue;
    const bool of_moment = text == "q8" || text == "fp8";
    if (of_moment && segment == "main") {
      return MakeError(Code::kInvalidArgument, "ENCODING_OF_MAIN",
                       "%.*s is for moments; main is fp32, bf16, fp16 or lo16", length,
                       text.data());
    }
    if (text == "lo16" && segment != "main") {
      return MakeError(Code::kInvalidArgument, "LO16_OF_MOMENT",
                       "lo16 is the half that a bf16 weight lacks of main; %.*s has no such weight",
                       int(segment.size() < 40 ? segment.size() : 40), segment.data());
    }
    // The table has the first moment's before the second's.
    if (!of_moment || !IsSecond(segment)) return named.encoding;
    return text == "q8" ? Encoding::kQ8Second : Encoding::kFp8Second;
  }
  return MakeError(Code::kInvalidArgument, "UNKNOWN_ENCODING",
                   "%.*s is no encoding: fp32, bf16, bf16-nearest, fp16, q8, fp8, lo16, raw",
                   length, text.data());
}

const char* NameOf(Encoding encoding) {
  for (const Named& named : kNames) {
    if (named.encoding == encoding) return named.name;
  }
  return "";
}

bool IsEncoding(uint32_t number) { return number >= 1 && number <= uint32_t(Encoding::kRaw); }

bool HasGroups(const Segment& segment) {
  switch (segment.encoding) {
    case Encoding::kQ8First:
    case Encoding::kQ8Second:
    case Encoding::kFp8First:
    case Encoding::kFp8Second:
      return true;
    case Encoding::kRaw:
      return segment.raw_group_bytes % kGroup != 0;
    default:
      return false;
  }
}

bool IsStochastic(Encoding encoding) {
  switch (encoding) {
    case Encoding::kBf16:
    case Encoding::kQ8First:
    case Encoding::kQ8Second:
    case Encoding::kFp8First:
    case Encoding::kFp8Second:
      return true;
    default:
      return false;
  }
}

Bytes EncodedBytes(const Segment& segment, uint64_t numel) {
  if (segment.encoding == Encoding::kRaw) return numel / kGroup * segment.raw_group_bytes;
  const Bytes codes = numel * CodeBytes(segment.encoding);
  switch (segment.encoding) {
    case Encoding::kQ8First:
    case Encoding::kQ8Second:
      return codes + numel / kGroup * 2;
    case Encoding::kFp8First:
    case Encoding::kFp8Second:
      return codes + numel / kGroup;
    default:
      return codes;
  }
}

Bytes ScalesAt(const Segment& segment, uint64_t numel) {
  const bool scales = HasGroups(segment) && segment.encoding != Encoding::kRaw;
  return scales ? numel * CodeBytes(segment.encoding) : EncodedBytes(segment, numel);
}

uint64_t FirstUnfit(Encoding encoding, const float* values, Range range) {
  const auto first = [&](auto fits) {
    for (uint64_t i = range.begin; i < range.end; ++i) {
      if (!fits(values[i])) return i;
    }
    return range.end;
  };
  switch (encoding) {
    case Encoding::kFp32:
    case Encoding::kLo16:
    case Encoding::kRaw:
      return range.end;
    case Encoding::kBf16:
    case Encoding::kBf16Nearest:
    case Encoding::kQ8First:
    case Encoding::kFp8First:
      return first(IsFinite);
    case Encoding::kFp16:
      return first(FitsFp16);
    case Encoding::kQ8Second:
    case Encoding::kFp8Second:
      return first(IsSecondMoment);
  }
  return range.end;
}

uint64_t WeightSum(const uint16_t* weights, Range range) {
  uint64_t sum = 0;
  for (uint64_t i = range.begin; i < range.end; ++i) sum += WeightTerm(i, weights[i]);
  return sum;
}

}  // namespace parkade::store
