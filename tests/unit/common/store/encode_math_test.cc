// The arithmetic of the encodings against known answers and whole ranges of codes.
#include "common/store/encode_math.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace parkade::store {
namespace {

// Values of all exponents and both signs, in no order.
std::vector<float> Spread(int count) {
  std::vector<float> values;
  for (uint64_t i = 0; values.size() < size_t(count); ++i) {
    const float x = FloatOf(uint32_t(Mix(i + 1)));
    if (IsFinite(x)) values.push_back(x);
  }
  return values;
}

TEST_CASE("Philox gives the known answers of its authors") {
  const auto is = [](RoundingWords in, uint32_t k0, uint32_t k1, RoundingWords out) {
    const RoundingWords got = Philox(in, k0, k1);
    for (int i = 0; i < 4; ++i) CHECK(got.word[i] == out.word[i]);
  };
  // kat_vectors of Random123 1.14, philox4x32 with 10 rounds.
  is({{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  is({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  is({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0,
     {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST_CASE("rounding bits differ by seed, parameter, step, segment and element") {
  const RoundingWords base = RoundingBits(RoundingKey(1, 2), 3, 1, 5);
  const auto same = [&base](RoundingWords other) {
    int equal = 0;
    for (int i = 0; i < 4; ++i) equal += base.word[i] == other.word[i];
    return equal;
  };
  CHECK(same(RoundingBits(RoundingKey(1, 2), 3, 1, 5)) == 4);
  CHECK(same(RoundingBits(RoundingKey(9, 2), 3, 1, 5)) == 0);
  CHECK(same(RoundingBits(RoundingKey(1, 9), 3, 1, 5)) == 0);
  CHECK(same(RoundingBits(RoundingKey(2, 1), 3, 1, 5)) == 0);
  CHECK(same(RoundingBits(RoundingKey(1, 2), 3 + (1ull << 33), 1, 5)) == 0);
  CHECK(same(RoundingBits(RoundingKey(1, 2), 3, 2, 5)) == 0);
  CHECK(same(RoundingBits(RoundingKey(1, 2), 3, 1, 5 + (1ull << 32))) == 0);
}

TEST_CASE("bf16 goes there and back, to the nearest with ties to even") {
  for (uint32_t code = 0; code < 65536; ++code) {
    const float x = FromBf16(uint16_t(code));
    if (x != x) {
      REQUIRE(FromBf16(ToBf16(x)) != FromBf16(ToBf16(x)));
      continue;
    }
    REQUIRE(ToBf16(x) == code);
    if (!IsFinite(x)) continue;
    REQUIRE(ToBf16By(x, 0) == code);
    REQUIRE(ToBf16By(x, ~0u) == code);
  }
  CHECK(ToBf16(FloatOf(0x3f808000)) == 0x3f80);
  CHECK(ToBf16(FloatOf(0x3f818000)) == 0x3f82);
  CHECK(ToBf16(FloatOf(0x3f808001)) == 0x3f81);
  CHECK(ToBf16(kMostFloat) == 0x7f80);
  CHECK(ToBf16By(kMostFloat, ~0u) == 0x7f7f);
  CHECK(ToBf16By(-kMostFloat, ~0u) == 0xff7f);
  CHECK(ToBf16By(FloatOf(0x3f808000), kNearest) == 0x3f80);
  CHECK(ToBf16By(FloatOf(0x3f818000), kNearest) == 0x3f82);
  CHECK(ToBf16By(FloatOf(0x3f808001), kNearest) == 0x3f81);
  CHECK(ToBf16By(kMostFloat, kNearest) == 0x7f7f);
}

TEST_CASE("a scale in bf16 is at or above the largest, and the next lower one is not") {
  for (const float x : Spread(20000)) {
    const float most = Magnitude(x);
    const uint16_t code = ScaleBf16(most);
    if (code == 0x7f7f) continue;
    REQUIRE(FromBf16(code) >= most);
    if (code > 0) REQUIRE(FromBf16(uint16_t(code - 1)) < most);
  }
  CHECK(ScaleBf16(kMostFloat) == 0x7f7f);
  CHECK(ScaleBf16(0) == 0);
}

TEST_CASE("fp16 goes there and back, and rounds between neighbours to the nearest, ties to even") {
  for (uint32_t code = 0; code < 0x7c00; ++code) {
    const float x = FromFp16(uint16_t(code));
    REQUIRE(ToFp16(x) == code);
    REQUIRE(ToFp16(-x) == (code | 0x8000));
    if (code + 1 == 0x7c00) continue;
    const float next = FromFp16(uint16_t(code + 1));
    const float middle = x + (next - x) / 2;
    REQUIRE(ToFp16(middle) == code + (code & 1));
    REQUIRE(ToFp16(std::nextafter(middle, 0.0f)) == code);
    REQUIRE(ToFp16(std::nextafter(middle, 1e9f)) == code + 1);
  }
  CHECK(FromFp16(0x3c00) == 1.0f);
  CHECK(FromFp16(0x0001) == std::ldexp(1.0f, -24));
  CHECK(FromFp16(0x7bff) == 65504.0f);
  CHECK(FitsFp16(65519.0f));
  CHECK_FALSE(FitsFp16(65520.0f));
  CHECK_FALSE(FitsFp16(-INFINITY));
  CHECK_FALSE(FitsFp16(NAN));
}

TEST_CASE("e4m3 has the values of its standard and goes there and back under every scale") {
  CHECK(FromE4M3(0x7e, 1) == 448);
  CHECK(FromE4M3(0x01, 1) == std::ldexp(1.0f, -9));
  CHECK(FromE4M3(0x08, 1) == std::ldexp(1.0f, -6));
  CHECK(FromE4M3(0x38, 1) == 1);
  for (int scale = 0; scale <= 246; ++scale) {
    const float s = FromE8M0(uint8_t(scale));
    CHECK(s == std::ldexp(1.0f, scale - 127));
    for (uint8_t code = 0; code < 0x7f; ++code) {
      const float x = FromE4M3(code, s);
      // Below the normal numbers a code times the least scales needs rounding.
      if (x < 1.2e-38f && std::ldexp(double(FromE4M3(code, 1)), scale - 127) != double(x)) continue;
      REQUIRE(ToE4M3(x, s, 0) == code);
      REQUIRE(ToE4M3(x, s, ~0u) == code);
    }
  }
}

TEST_CASE(
    "a scale of a power of two leaves the largest at or below 448, and no smaller one would") {
  for (const float x : Spread(20000)) {
    const double most = double(Magnitude(x));
    const uint8_t scale = ScaleE8M0(Magnitude(x));
    REQUIRE(scale <= 247);
    REQUIRE(448 * std::ldexp(1.0, scale - 127) >= most);
    if (scale > 0) REQUIRE(448 * std::ldexp(1.0, scale - 128) < most);
  }
}

TEST_CASE("the codes of q8 grow with the value, and end at the scale itself") {
  for (const float scale : {1.0f, FromBf16(1), FromBf16(0x7f7f), 3.0f}) {
    for (int code = -127; code < 127; ++code) {
      REQUIRE(FromQ8First(int8_t(code), scale) <= FromQ8First(int8_t(code + 1), scale));
    }
    CHECK(FromQ8First(127, scale) == scale);
    CHECK(FromQ8First(-127, scale) == -scale);
    CHECK(FromQ8First(0, scale) == 0);
  }
  for (const float root : {1e-15f, 1.0f, 1e18f}) {
    const float scale = FromBf16(ScaleBf16(root));
    for (int code = 0; code < 255; ++code) {
      REQUIRE(FromQ8Second(uint8_t(code), scale) < FromQ8Second(uint8_t(code + 1), scale));
      if (code > 0)
        REQUIRE(ToQ8Second(Sqrt(FromQ8Second(uint8_t(code), scale)), scale, kNearest) == code);
    }
  }
}

TEST_CASE("a second moment above zero stays above zero, and finite") {
  const float least = FloatOf(1);
  const float root = Sqrt(least);
  const float scale = FromBf16(ScaleBf16(root));
  CHECK(FromQ8Second(ToQ8Second(root, scale, 0), scale) > 0);
  CHECK(FromQ8Second(1, scale) > 0);
  CHECK(ToQ8Second(root, FromBf16(0x7f7f), 0) == 1);
  CHECK(ToFp8Second(root, FromE8M0(200), 0) == 1);
  CHECK(FromFp8Second(1, FromE8M0(0)) > 0);
  const float most = Sqrt(kMostFloat);
  CHECK(IsFinite(FromQ8Second(255, FromBf16(ScaleBf16(most)))));
  CHECK(IsFinite(FromFp8Second(0x7e, FromE8M0(ScaleE8M0(most)))));
}

TEST_CASE("lo16 restores every value beside its bf16, but for one bit where it lies halfway") {
  const auto check = [](uint32_t bits) {
    const float x = FloatOf(bits);
    const Lo16 split = ToLo16(x);
    REQUIRE(BitsOf(FromLo16(split.weight, split.low, split.tie_up)) == bits);
    if (x == x) {
      REQUIRE(split.weight == ToBf16(x));
    } else {
      REQUIRE(FromBf16(split.weight) != FromBf16(split.weight));
    }
    if (split.low != 0x8000) REQUIRE_FALSE(split.tie_up);
  };
  for (uint32_t high = 0; high < 65536; ++high) {
    const bool nan_below = (high & 0x7fff) == 0x7f80;
    for (const uint32_t low :
         {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, high * 40503u & 0xffff}) {
      if (nan_below && low != 0) continue;
      check(high << 16 | low);
    }
  }
  CHECK(ToLo16(FloatOf(0x3f808000)).weight == 0x3f80);
  CHECK(ToLo16(FloatOf(0x3f7f8000)).weight == 0x3f80);
  CHECK_FALSE(ToLo16(FloatOf(0x3f808000)).tie_up);
  CHECK(ToLo16(FloatOf(0x3f7f8000)).tie_up);
  // A NaN with nothing in its high half is another NaN afterwards.
  const Lo16 nan = ToLo16(FloatOf(0x7f800001));
  const float back = FromLo16(nan.weight, nan.low, nan.tie_up);
  CHECK(back != back);
}

TEST_CASE("stochastic rounding is up with the probability of the fraction") {
  for (const float fraction : {0.0f, 0.25f, 0.5f, 0.9f}) {
    int up = 0;
    for (uint64_t i = 0; i < 40000; ++i) up += RoundBy(7 + fraction, uint32_t(Mix(i))) == 8;
    const double expected = 40000.0 * double(fraction);
    CHECK(std::abs(up - expected) <= 4 * std::sqrt(expected * (1 - double(fraction))) + 1e-9);
  }
  CHECK(RoundBy(7.51f, kNearest) == 8);
  CHECK(RoundBy(7.49f, kNearest) == 7);
}

}  // namespace
}  // namespace parkade::store
