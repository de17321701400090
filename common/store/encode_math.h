// The arithmetic of the encodings, element by element, for the processor and the GPU alike; who
// loops over elements and groups, and where bytes lie, is said in encoding.h.
//
// Host and device agree bit for bit: only + - * / sqrt of IEEE binary32, each rounded by itself.
// So compile with -ffp-contract=off (parkade_store hands that on) and without fast-math; the device
// uses the intrinsics that are never contracted. Subnormal numbers count: a thread that flushes
// them to zero (FTZ, DAZ) decodes other values, so the callers on the processor clear those bits.
// C++17, no standard library, for nvcc.
#pragma once

#include <stdint.h>

#if defined(__CUDACC__)
#define PARKADE_MATH __host__ __device__ inline
#else
#define PARKADE_MATH inline
#endif

namespace parkade::store {

// Elements that share a scale: 32 consecutive ones of a parameter, counted from its start.
constexpr uint32_t kGroup = 32;

// ---- binary32, one rounding each ----

PARKADE_MATH uint32_t BitsOf(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}

PARKADE_MATH float FloatOf(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
#endif
}

#if defined(__CUDA_ARCH__)
PARKADE_MATH float Add(float a, float b) { return __fadd_rn(a, b); }
PARKADE_MATH float Sub(float a, float b) { return __fsub_rn(a, b); }
PARKADE_MATH float Mul(float a, float b) { return __fmul_rn(a, b); }
PARKADE_MATH float Div(float a, float b) { return __fdiv_rn(a, b); }
PARKADE_MATH float Sqrt(float a) { return __fsqrt_rn(a); }
PARKADE_MATH uint32_t MulHigh(uint32_t a, uint32_t b) { return __umulhi(a, b); }
#else
PARKADE_MATH float Add(float a, float b) { return a + b; }
PARKADE_MATH float Sub(float a, float b) { return a - b; }
PARKADE_MATH float Mul(float a, float b) { return a * b; }
PARKADE_MATH float Div(float a, float b) { return a / b; }
PARKADE_MATH float Sqrt(float a) { return __builtin_sqrtf(a); }
PARKADE_MATH uint32_t MulHigh(uint32_t a, uint32_t b) { return uint32_t((uint64_t(a) * b) >> 32); }
#endif

constexpr float kMostFloat = 3.40282346638528859811704183484516925e+38f;

PARKADE_MATH float Magnitude(float x) { return FloatOf(BitsOf(x) & 0x7fffffffu); }
PARKADE_MATH bool IsFinite(float x) { return (BitsOf(x) & 0x7f800000u) != 0x7f800000u; }
// What a second moment may be: finite and not below zero.
PARKADE_MATH bool IsSecondMoment(float x) { return IsFinite(x) && !(x < 0.0f); }

// ---- the bits of stochastic rounding ----

struct RoundingWords {
  uint32_t word[4];
};

// Philox4x32-10 (J. Salmon, M. Moraes, R. Dror, D. Shaw: Parallel random numbers: as easy as 1, 2,
// 3; SC'11): a pure function of a 128-bit counter and a 64-bit key.
PARKADE_MATH RoundingWords Philox(RoundingWords counter, uint32_t key0, uint32_t key1) {
  uint32_t a = counter.word[0], b = counter.word[1], c = counter.word[2], d = counter.word[3];
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = MulHigh(0xD2511F53u, a), low0 = 0xD2511F53u * a;
    const uint32_t high1 = MulHigh(0xCD9E8D57u, c), low1 = 0xCD9E8D57u * c;
    a = high1 ^ b ^ key0;
    b = low1;
    c = high0 ^ d ^ key1;
    d = low0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{a, b, c, d}};
}

// A bijection of 64 bits in which every bit of the input reaches every one of the output: the last
// step of SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014; constants by D. Stafford).
PARKADE_MATH uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// The key of a parameter's bits in a run; `parameter` is ParameterId of its name (layout.h).
PARKADE_MATH uint64_t RoundingKey(uint64_t seed, uint64_t parameter) {
  return Mix(seed + 0x9E3779B97F4A7C15ull) ^ Mix(parameter);
}

// The bits for the elements 4 * quad to 4 * quad + 3 of one segment in one step. Elements are
// counted as Piece::counter (layout.h) says; `step` below 2^56, `segment` below 256.
PARKADE_MATH RoundingWords RoundingBits(uint64_t key, uint64_t step, uint32_t segment,
                                        uint64_t quad) {
  const RoundingWords counter = {
      {uint32_t(quad), uint32_t(quad >> 32), uint32_t(step), uint32_t(step >> 32) << 8 | segment}};
  return Philox(counter, uint32_t(key), uint32_t(key >> 32));
}

// In place of a random word: rounds to the nearest, in every function below that takes one.
constexpr uint32_t kNearest = 0x80000000u;

// `y` between 0 and 2^23 to one of the two whole numbers beside it: up with a probability of its
// fraction, in steps of 2^-24. The fraction is exact.
PARKADE_MATH uint32_t RoundBy(float y, uint32_t word) {
  const uint32_t whole = uint32_t(y);
  const float fraction = Sub(y, float(whole));
  return whole + (Mul(float(word >> 8), 5.9604644775390625e-8f) < fraction ? 1 : 0);
}

// ---- bf16 ----

PARKADE_MATH float FromBf16(uint16_t code) { return FloatOf(uint32_t(code) << 16); }

// Round to nearest, ties to even, as hardware and PyTorch cast; NaN stays NaN.
PARKADE_MATH uint16_t ToBf16(float x) {
  const uint32_t bits = BitsOf(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t(bits >> 16 | 0x40u);
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Finite `x` to one of the two neighbours, the farther from zero with a probability of its
// distance; never to infinity. kNearest: as ToBf16, ties to even.
PARKADE_MATH uint16_t ToBf16By(float x, uint32_t word) {
  const uint32_t bits = BitsOf(x);
  const uint32_t added = word == kNearest ? 0x7fffu + (bits >> 16 & 1u) : word >> 16;
  uint32_t magnitude = ((bits & 0x7fffffffu) + added) >> 16;
  if (magnitude > 0x7f7fu) magnitude = 0x7f7fu;
  return uint16_t((bits >> 16 & 0x8000u) | magnitude);
}

// The scale of a group in q8: its largest magnitude, rounded up to bf16; the largest finite one for
// what is above that.
PARKADE_MATH uint16_t ScaleBf16(float most) {
  const uint32_t code = (BitsOf(most) + 0xffffu) >> 16;
  return uint16_t(code > 0x7f7fu ? 0x7f7fu : code);
}

// ---- fp16, round to nearest, ties to even ----

// Whether finite `x` has a finite fp16 beside it: below 65520 in magnitude.
PARKADE_MATH bool FitsFp16(float x) { return Magnitude(x) < 65520.0f; }

// `x` as FitsFp16 allows.
PARKADE_MATH uint16_t ToFp16(float x) {
  const uint32_t bits = BitsOf(x);
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude < 0x38800000u) {
    // Below 2^-14 an fp16 is a multiple of 2^-24: adding 0.5 rounds there, in the last bit of a
    // binary32 between 0.5 and 1.
    return uint16_t(sign | (BitsOf(Add(FloatOf(magnitude), 0.5f)) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return uint16_t(sign | ((rounded - 0x38000000u) >> 13));
}

PARKADE_MATH float FromFp16(uint16_t code) {
  const uint32_t sign = uint32_t(code & 0x8000u) << 16;
  const uint32_t magnitude = code & 0x7fffu;
  if (magnitude < 0x400u) {
    return FloatOf(sign | BitsOf(Mul(float(magnitude), 5.9604644775390625e-8f)));
  }
  if (magnitude >= 0x7c00u) return FloatOf(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  return FloatOf(sign | ((magnitude << 13) + 0x38000000u));
}

// ---- q8: one byte each and a bf16 scale per group ----

// First moment: softsign of m / scale in 127 steps, so that small values keep their share of the
// codes. `m` at most the group's largest, of which `scale` is ScaleBf16; 0 if that is 0.
PARKADE_MATH int8_t ToQ8First(float m, float scale, uint32_t word) {
  if (scale == 0.0f) return 0;
  const float x = Div(Magnitude(m), scale);
  const float z = Div(Add(x, x), Add(1.0f, x));
  uint32_t code = RoundBy(Mul(127.0f, z), word);
  if (code > 127u) code = 127u;
  return int8_t(BitsOf(m) >> 31 ? -int32_t(code) : int32_t(code));
}

PARKADE_MATH float FromQ8First(int8_t code, float scale) {
  const int32_t magnitude = code < 0 ? -int32_t(code) : int32_t(code);
  const float z = Div(float(magnitude), 127.0f);
  const float m = Mul(scale, Div(z, Sub(2.0f, z)));
  return code < 0 ? -m : m;
}

// Second moment, by its square root: 255 steps up to `scale`, which is ScaleBf16 of the group's
// largest root. A value above zero never becomes zero: Adam divides by it.
PARKADE_MATH uint8_t ToQ8Second(float root, float scale, uint32_t word) {
  if (root == 0.0f) return 0;
  const uint32_t code = RoundBy(Mul(255.0f, Div(root, scale)), word);
  return uint8_t(code < 1u ? 1u : code > 255u ? 255u : code);
}

// The square of a decoded root: above zero for a root above zero, and finite.
PARKADE_MATH float SquareOfRoot(float root) {
  const float square = Mul(root, root);
  if (!IsFinite(square)) return kMostFloat;
  return root > 0.0f && square == 0.0f ? FloatOf(1) : square;
}

PARKADE_MATH float FromQ8Second(uint8_t code, float scale) {
  return SquareOfRoot(Mul(scale, Div(float(code), 255.0f)));
}

// ---- fp8: e4m3 and a power of two per group ----
// OCP Microscaling Formats v1.0: a shared E8M0 scale for 32 elements of FP8 E4M3 (largest 448).

// The exponent, plus 127, of the smallest power of two of which 448 times is `most` or above; 0 to
// 254.
PARKADE_MATH uint8_t ScaleE8M0(float most) {
  const int32_t bits = int32_t(BitsOf(most));
  // 448 is 1.75 * 2^8; a fraction above 1.75 needs one power more. Subnormals count as the smallest
  // exponent, which is far below scale 0 already.
  const int32_t scale = (bits >> 23) - 8 + ((bits & 0x7fffff) > 0x600000 ? 1 : 0);
  return uint8_t(scale < 0 ? 0 : scale);
}

PARKADE_MATH float FromE8M0(uint8_t scale) {
  return FloatOf(scale == 0 ? 0x00400000u : uint32_t(scale) << 23);
}

// The magnitude in the low seven bits. `magnitude` at most 448 times the scale's value `scale`.
PARKADE_MATH uint8_t ToE4M3(float magnitude, float scale, uint32_t word) {
  const float x = Div(magnitude, scale);
  int32_t exponent = int32_t(BitsOf(x) >> 23) - 127;
  if (exponent < -6) exponent = -6;
  // Eight steps to a power of two: x in units of 2^(exponent - 3).
  const float units = Mul(x, FloatOf(uint32_t(130 - exponent) << 23));
  const uint32_t code = uint32_t(exponent + 6) * 8 + RoundBy(units, word);
  return uint8_t(code > 0x7eu ? 0x7eu : code);
}

PARKADE_MATH float FromE4M3(uint8_t code, float scale) {
  const uint32_t field = code >> 3 & 15u, fraction = code & 7u;
  const float x = field == 0 ? Mul(float(fraction), 0.001953125f)
                             : Mul(float(8 + fraction), FloatOf((field + 117) << 23));
  return Mul(x, scale);
}

PARKADE_MATH uint8_t ToFp8First(float m, float scale, uint32_t word) {
  return uint8_t((BitsOf(m) >> 24 & 0x80u) | ToE4M3(Magnitude(m), scale, word));
}

PARKADE_MATH float FromFp8First(uint8_t code, float scale) {
  const float m = FromE4M3(code & 0x7fu, scale);
  return code & 0x80u ? -m : m;
}

// As ToQ8Second: above zero never becomes zero.
PARKADE_MATH uint8_t ToFp8Second(float root, float scale, uint32_t word) {
  if (root == 0.0f) return 0;
  const uint8_t code = ToE4M3(root, scale, word);
  return code == 0 ? 1 : code;
}

PARKADE_MATH float FromFp8Second(uint8_t code, float scale) {
  return SquareOfRoot(FromE4M3(code & 0x7fu, scale));
}

// ---- lo16: the low half of a binary32 beside its nearest bf16 ----

struct Lo16 {
  uint16_t weight;  // ToBf16 of the value
  uint16_t low;     // its 16 low bits
  // The value lay halfway and was rounded away from zero: low is 0x8000 then, as it is for one that
  // was rounded towards zero, so this bit must be kept beside the two (the tie map, ties.h).
  bool tie_up;
};

// Every value comes back bit for bit, but a NaN with nothing in its high half, which comes back as
// another NaN.
PARKADE_MATH Lo16 ToLo16(float x) {
  const uint32_t bits = BitsOf(x);
  const uint16_t high = uint16_t(bits >> 16), low = uint16_t(bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return {uint16_t((high & 0x7fu) ? high : high | 0x40u), low, false};
  }
  const uint16_t weight = uint16_t((bits + 0x7fffu + (high & 1u)) >> 16);
  return {weight, low, low == 0x8000u && weight != high};
}

PARKADE_MATH float FromLo16(uint16_t weight, uint16_t low, bool tie_up) {
  const bool nan = (weight & 0x7fffu) > 0x7f80u;
  const uint32_t high = !nan && (low > 0x8000u || tie_up) ? weight - 1u : weight;
  return FloatOf(high << 16 | low);
}

// What the weight at `position` of a bucket adds to the bucket's checksum, a sum modulo 2^64 (so in
// any order) over the positions of its pieces.
PARKADE_MATH uint64_t WeightTerm(uint64_t position, uint16_t weight) {
  return Mix((position + 1) << 16 | weight);
}

}  // namespace parkade::store
