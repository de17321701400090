// What the kernels of a store do with four elements side by side, for the GPU and for the host
// twins alike: decode, encode, Adam. Who loops over them, and finds a group's largest value, is
// store_kernels.cu, or tests/sim/store_twin.h. Arithmetic is common/store/encode_math.h's.
#pragma once

#include "common/store/encode_math.h"
#include "shim/kernels/store_kernels.h"

namespace parkade {

// common/store/encoding.h's numbers, which nvcc does not read; its users assert that they agree.
enum StoreEncoding : uint32_t {
  kStoreFp32 = 1,
  kStoreBf16 = 2,
  kStoreBf16Nearest = 3,
  kStoreFp16 = 4,
  kStoreQ8First = 5,
  kStoreQ8Second = 6,
  kStoreFp8First = 7,
  kStoreFp8Second = 8,
  kStoreLo16 = 9,
  kStoreRaw = 10,
};

// Four positions of a bucket, from a multiple of four on, and which of them are elements of the
// piece: first <= i < last.
struct StoreQuad {
  uint64_t position;
  uint32_t first, last;
};

PARKADE_MATH bool Has(const StoreQuad& quad, uint32_t i) {
  return i >= quad.first && i < quad.last;
}

PARKADE_MATH StoreQuad QuadOf(const StorePiece& piece, uint64_t position) {
  StoreQuad quad = {position, 0, 4};
  const uint64_t end = piece.position + piece.numel;
  if (position < piece.position) {
    const uint64_t less = piece.position - position;
    quad.first = less < 4 ? uint32_t(less) : 4;
  }
  if (position + 4 > end) quad.last = position < end ? uint32_t(end - position) : 0;
  return quad;
}

// The index in the piece of element i of the quad, which it Has.
PARKADE_MATH uint64_t IndexIn(const StorePiece& piece, const StoreQuad& quad, uint32_t i) {
  return quad.position + i - piece.position;
}

// ---- weights and gradients ----

PARKADE_MATH float LoadTyped(uint64_t address, uint32_t type, uint64_t index) {
  if (type == kTypeFp32) return reinterpret_cast<const float*>(address)[index];
  const uint16_t code = reinterpret_cast<const uint16_t*>(address)[index];
  return type == kTypeBf16 ? store::FromBf16(code) : store::FromFp16(code);
}

// To the nearest, as a cast does; what is too large for fp16 becomes infinite.
PARKADE_MATH void SaveTyped(uint64_t address, uint32_t type, uint64_t index, float value) {
  if (type == kTypeFp32) {
    reinterpret_cast<float*>(address)[index] = value;
    return;
  }
  uint16_t code;
  if (type == kTypeBf16) {
    code = store::ToBf16(value);
  } else if (!store::IsFinite(value) || !store::FitsFp16(value)) {
    const uint32_t bits = store::BitsOf(value);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    code = uint16_t((bits >> 16 & 0x8000u) | (nan ? 0x7e00u : 0x7c00u));
  } else {
    code = store::ToFp16(value);
  }
  reinterpret_cast<uint16_t*>(address)[index] = code;
}

// ---- decode ----

PARKADE_MATH bool TieAt(uint64_t ties, uint64_t position) {
  return (reinterpret_cast<const uint32_t*>(ties)[position / 32] >> (position % 32) & 1u) != 0;
}

PARKADE_MATH float DecodeOne(const StoreSegment& s, uint64_t at) {
  const uint64_t group = at / store::kGroup;
  switch (s.encoding) {
    case kStoreFp32:
      return reinterpret_cast<const float*>(s.bytes)[at];
    case kStoreBf16:
    case kStoreBf16Nearest:
      return store::FromBf16(reinterpret_cast<const uint16_t*>(s.bytes)[at]);
    case kStoreFp16:
      return store::FromFp16(reinterpret_cast<const uint16_t*>(s.bytes)[at]);
    case kStoreQ8First:
      return store::FromQ8First(
          reinterpret_cast<const int8_t*>(s.bytes)[at],
          store::FromBf16(reinterpret_cast<const uint16_t*>(s.scales)[group]));
    case kStoreQ8Second:
      return store::FromQ8Second(
          reinterpret_cast<const uint8_t*>(s.bytes)[at],
          store::FromBf16(reinterpret_cast<const uint16_t*>(s.scales)[group]));
    case kStoreFp8First:
      return store::FromFp8First(
          reinterpret_cast<const uint8_t*>(s.bytes)[at],
          store::FromE8M0(reinterpret_cast<const uint8_t*>(s.scales)[group]));
    case kStoreFp8Second:
      return store::FromFp8Second(
          reinterpret_cast<const uint8_t*>(s.bytes)[at],
          store::FromE8M0(reinterpret_cast<const uint8_t*>(s.scales)[group]));
    default:
      return 0.0f;
  }
}

// Positions without an element are zero.
PARKADE_MATH void DecodeQuad(const StoreBucketArgs& b, const StoreSegment& s,
                             const StorePiece& piece, const StoreQuad& quad, float out[4]) {
  for (uint32_t i = 0; i < 4; ++i) {
    out[i] = 0.0f;
    if (!Has(quad, i)) continue;
    const uint64_t at = quad.position + i;
    if (s.encoding == kStoreLo16) {
      const uint64_t index = IndexIn(piece, quad, i);
      out[i] = store::FromLo16(reinterpret_cast<const uint16_t*>(piece.weight)[index],
                               reinterpret_cast<const uint16_t*>(s.bytes)[at], TieAt(b.ties, at));
    } else {
      out[i] = DecodeOne(s, at);
    }
  }
}

// ---- encode ----

// Whether the encoding holds the value.
PARKADE_MATH bool Fits(uint32_t encoding, float x) {
  switch (encoding) {
    case kStoreFp32:
    case kStoreLo16:
      return true;
    case kStoreFp16:
      return store::IsFinite(x) && store::FitsFp16(x);
    case kStoreQ8Second:
    case kStoreFp8Second:
      return store::IsSecondMoment(x);
    default:
      return store::IsFinite(x);
  }
}

PARKADE_MATH bool IsSecond(uint32_t encoding) {
  return encoding == kStoreQ8Second || encoding == kStoreFp8Second;
}

PARKADE_MATH bool IsGrouped(uint32_t encoding) {
  return encoding >= kStoreQ8First && encoding <= kStoreFp8Second;
}

// Values that do not fit are counted, and become zero: their bucket is never written.
PARKADE_MATH uint32_t TakeUnfit(uint32_t encoding, float v[4]) {
  uint32_t unfit = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    if (Fits(encoding, v[i])) continue;
    v[i] = 0.0f;
    ++unfit;
  }
  return unfit;
}

// What of four values counts for their group's scale: the largest magnitude, or root.
PARKADE_MATH float MostOf(uint32_t encoding, const float v[4]) {
  float most = 0.0f;
  for (uint32_t i = 0; i < 4; ++i) {
    const float x = IsSecond(encoding) ? store::Sqrt(v[i]) : store::Magnitude(v[i]);
    if (x > most) most = x;
  }
  return most;
}

// The random words of the quad's elements in one segment.
PARKADE_MATH void WordsOf(const StoreBucketArgs& b, const StorePiece& piece, const StoreQuad& quad,
                          uint32_t segment, uint32_t encoding, uint32_t words[4]) {
  const bool random = b.nearest == 0 && (encoding == kStoreBf16 || IsGrouped(encoding));
  if (!random) {
    for (uint32_t i = 0; i < 4; ++i) words[i] = store::kNearest;
    return;
  }
  // Padding before the piece counts backwards, and its words are not used.
  const uint64_t from = piece.counter + (quad.position - piece.position);
  store::RoundingWords drawn = store::RoundingBits(piece.key, b.step, segment, from / 4);
  for (uint32_t i = 0; i < 4; ++i) {
    const uint64_t number = from + i;
    if (i != 0 && number % 4 == 0) {
      drawn = store::RoundingBits(piece.key, b.step, segment, number / 4);
    }
    words[i] = drawn.word[number % 4];
  }
}

// Writes four values, zero where there is no element. `most` is MostOf the whole group.
PARKADE_MATH void EncodeQuad(const StoreBucketArgs& b, uint32_t segment, const StorePiece& piece,
                             const StoreQuad& quad, const float v[4], float most) {
  const StoreSegment& s = b.segments[segment];
  const uint64_t group = quad.position / store::kGroup;
  const bool leads = quad.position % store::kGroup == 0;
  uint32_t words[4];
  WordsOf(b, piece, quad, segment, s.encoding, words);
  float scale = 0.0f;
  if (s.encoding == kStoreQ8First || s.encoding == kStoreQ8Second) {
    const uint16_t code = store::ScaleBf16(most);
    if (leads) reinterpret_cast<uint16_t*>(s.scales)[group] = code;
    scale = store::FromBf16(code);
  } else if (s.encoding == kStoreFp8First || s.encoding == kStoreFp8Second) {
    const uint8_t code = store::ScaleE8M0(most);
    if (leads) reinterpret_cast<uint8_t*>(s.scales)[group] = code;
    scale = store::FromE8M0(code);
  }
  for (uint32_t i = 0; i < 4; ++i) {
    const uint64_t at = quad.position + i;
    const float x = Has(quad, i) ? v[i] : 0.0f;
    switch (s.encoding) {
      case kStoreFp32:
        reinterpret_cast<float*>(s.bytes)[at] = x;
        break;
      case kStoreBf16:
        reinterpret_cast<uint16_t*>(s.bytes)[at] = store::ToBf16By(x, words[i]);
        break;
      case kStoreBf16Nearest:
        reinterpret_cast<uint16_t*>(s.bytes)[at] = store::ToBf16(x);
        break;
      case kStoreFp16:
        reinterpret_cast<uint16_t*>(s.bytes)[at] = store::ToFp16(x);
        break;
      case kStoreQ8First:
        reinterpret_cast<int8_t*>(s.bytes)[at] = store::ToQ8First(x, scale, words[i]);
        break;
      case kStoreQ8Second:
        reinterpret_cast<uint8_t*>(s.bytes)[at] =
            store::ToQ8Second(store::Sqrt(x), scale, words[i]);
        break;
      case kStoreFp8First:
        reinterpret_cast<uint8_t*>(s.bytes)[at] = store::ToFp8First(x, scale, words[i]);
        break;
      case kStoreFp8Second:
        reinterpret_cast<uint8_t*>(s.bytes)[at] =
            store::ToFp8Second(store::Sqrt(x), scale, words[i]);
        break;
      default:
        break;
    }
  }
}

// The same for lo16: also the weights, their share of the sum, and the bits of the map that the
// caller puts together, bit i for the quad's element i.
PARKADE_MATH uint32_t EncodeLo16Quad(const StoreSegment& s, const StorePiece& piece,
                                     const StoreQuad& quad, const float v[4], uint64_t* sum) {
  uint32_t ties = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint64_t at = quad.position + i;
    const store::Lo16 halves = store::ToLo16(Has(quad, i) ? v[i] : 0.0f);
    reinterpret_cast<uint16_t*>(s.bytes)[at] = halves.low;
    if (!Has(quad, i)) continue;
    reinterpret_cast<uint16_t*>(piece.weight)[IndexIn(piece, quad, i)] = halves.weight;
    *sum += store::WeightTerm(at, halves.weight);
    if (halves.tie_up) ties |= 1u << i;
  }
  return ties;
}

// The piece that a group of 32 positions belongs to: the last whose first group is not behind it.
PARKADE_MATH const StorePiece& PieceOf(const StoreBucketArgs& b, uint64_t group) {
  const StorePiece* const pieces = reinterpret_cast<const StorePiece*>(b.pieces);
  uint32_t first = 0, count = b.piece_count;
  while (count > 1) {
    const uint32_t half = count / 2;
    if (pieces[first + half].position / store::kGroup <= group) {
      first += half;
      count -= half;
    } else {
      count = half;
    }
  }
  return pieces[first];
}

// ---- Adam ----

// One element; all of it in binary32, each operation rounded by itself.
PARKADE_MATH void Adam(const StoreAdamGroup& g, float gradient, float* main, float* first,
                       float* second) {
  using store::Add, store::Div, store::Mul, store::Sqrt, store::Sub;
  if (g.l2 != 0.0f) gradient = Add(gradient, Mul(g.l2, *main));
  *first = Add(Mul(g.beta1, *first), Mul(g.one_less_beta1, gradient));
  *second = Add(Mul(g.beta2, *second), Mul(g.one_less_beta2, Mul(gradient, gradient)));
  const float denominator = Add(Mul(Sqrt(*second), g.root), g.eps);
  *main = Sub(Mul(*main, g.keep), Mul(g.step_size, Div(*first, denominator)));
}

}  // namespace parkade
