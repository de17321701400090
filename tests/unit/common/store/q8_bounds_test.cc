// What q8 promises of one round trip and of many: bounds, no bias, no frozen second moment.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/store/encoding.h"

namespace parkade::store {
namespace {

std::vector<float> RoundTrip(Encoding encoding, const std::vector<float>& values,
                             const Rounding& rounding) {
  const Segment segment = {"s", encoding};
  std::vector<uint8_t> bytes(EncodedBytes(segment, values.size()));
  const Range all = {0, values.size()};
  REQUIRE(Encode(segment, values.data(), values.size(), all, rounding, {}, bytes.data()).ok());
  std::vector<float> back(values.size());
  Decode(segment, bytes.data(), values.size(), all, {}, back.data());
  return back;
}

// Groups that are hard: zeros of both signs, one spike far above the rest, subnormal numbers, the
// largest, steps over all exponents, ordinary noise.
std::vector<std::vector<float>> HardGroups() {
  std::vector<std::vector<float>> groups;
  groups.emplace_back(32, 0.0f);
  groups.emplace_back(32, -0.0f);
  groups.emplace_back(32, 1e-10f);
  groups.back()[9] = 1.0f;
  groups.emplace_back(32, 1e-30f);
  groups.back()[31] = 3e38f;
  groups.emplace_back(32, FloatOf(1));
  groups.emplace_back(32, FloatOf(0x007fffff));
  groups.back()[0] = FloatOf(1);
  groups.emplace_back(32, kMostFloat);
  groups.emplace_back(32, kMostFloat);
  groups.back()[1] = FloatOf(0x7f7f0000);
  groups.emplace_back(32, 0.0f);
  groups.back()[4] = FloatOf(0x00800000);
  for (int start = -149; start < 96; start += 7) {
    groups.emplace_back(32);
    for (int i = 0; i < 32; ++i) groups.back()[size_t(i)] = std::ldexp(1.37f, start + i);
  }
  for (uint64_t seed = 0; seed < 200; ++seed) {
    groups.emplace_back(32);
    for (uint64_t i = 0; i < 32; ++i) {
      groups.back()[i] = std::ldexp(float(Mix(seed * 32 + i) >> 40), int(seed % 60) - 54);
    }
  }
  return groups;
}

TEST_CASE("a first moment comes back between the two codes around it") {
  for (auto group : HardGroups()) {
    for (size_t i = 1; i < 32; i += 2) group[i] = -group[i];
    double most = 0;
    for (const float m : group) most = std::max(most, std::abs(double(m)));
    const double scale = double(FromBf16(ScaleBf16(float(most))));
    for (const bool nearest : {false, true}) {
      const auto back = RoundTrip(Encoding::kQ8First, group, {3, 4, 5, 6, nearest});
      for (size_t i = 0; i < 32; ++i) {
        if (most == 0) {
          REQUIRE(back[i] == 0);
          continue;
        }
        const double x = std::abs(double(group[i])) / scale;
        const double y = std::min(127.0, 127 * 2 * x / (1 + x));
        const auto value = [scale](double code) { return scale * (code / 127) / (2 - code / 127); };
        const double low = value(std::floor(y - 1e-4)), high = value(std::ceil(y + 1e-4));
        const double got = std::abs(double(back[i]));
        // binary32 rounds the ends too, and has no number nearer than 2^-149.
        const double slack = high * 1e-6 + 1.5e-45;
        REQUIRE(got >= low - slack);
        REQUIRE(got <= std::min(high, value(127)) + slack);
        if (nearest && y < 126) {
          const double first_order = scale * (1 + x) * (1 + x) / 254 / 2;
          REQUIRE(std::abs(got - x * scale) <= first_order * 1.05 + slack);
        }
        if (got != 0) REQUIRE((back[i] < 0) == (group[i] < 0));
      }
    }
  }
}

TEST_CASE("the root of a second moment comes back within a 255th of the group's largest") {
  for (const auto& group : HardGroups()) {
    double most = 0;
    for (const float v : group) most = std::max(most, std::sqrt(double(v)));
    const double scale = double(
        FromBf16(ScaleBf16(Sqrt(float(most * most > 3.4028234e38 ? 3.4028234e38 : most * most)))));
    for (const bool nearest : {false, true}) {
      const auto back = RoundTrip(Encoding::kQ8Second, group, {3, 4, 5, 6, nearest});
      for (size_t i = 0; i < 32; ++i) {
        REQUIRE((back[i] == 0) == (group[i] == 0));
        REQUIRE(IsFinite(back[i]));
        if (group[i] == 0) continue;
        const double root = std::sqrt(double(group[i])), got = std::sqrt(double(back[i]));
        // Below 2^-126 the square has few bits: its root is off by up to half of the least
        // number's.
        const double slack = scale * 1e-6 + (back[i] < 1.2e-38f ? 3e-23 : 0);
        const bool floored = nearest && root < scale / 255;
        REQUIRE(std::abs(got - root) <= scale / 255 / (nearest && !floored ? 2 : 1) + slack);
      }
    }
  }
}

TEST_CASE("the mean of 4096 encodings is the value itself, within four sigma") {
  constexpr uint64_t kTimes = 4096;
  for (const Encoding encoding : {Encoding::kQ8First, Encoding::kQ8Second}) {
    const bool first = encoding == Encoding::kQ8First;
    std::vector<float> group(32);
    for (size_t i = 0; i < 32; ++i)
      group[i] = first ? float(i) / 37 - 0.4f : float((i + 1) * (i + 1)) * 1e-4f;
    const Segment segment = {"s", encoding};
    std::vector<double> sums(32);
    std::vector<uint8_t> bytes(EncodedBytes(segment, 32));
    for (uint64_t time = 0; time < kTimes; ++time) {
      REQUIRE(Encode(segment, group.data(), 32, {0, 32}, {RoundingKey(1, 2), time, 1, 0}, {},
                     bytes.data())
                  .ok());
      for (size_t i = 0; i < 32; ++i)
        sums[i] += first ? double(int8_t(bytes[i])) : double(bytes[i]);
    }
    uint16_t stored;
    memcpy(&stored, &bytes[32], 2);
    const double scale = double(FromBf16(stored));
    for (size_t i = 0; i < 32; ++i) {
      const double x = std::abs(double(group[i])) / scale;
      const double exact = first ? std::copysign(127 * 2 * x / (1 + x), double(group[i]))
                                 : 255 * std::sqrt(double(group[i])) / scale;
      const double fraction = std::abs(exact) - std::floor(std::abs(exact));
      const double sigma = std::sqrt(fraction * (1 - fraction) / kTimes);
      INFO("element " << i << " of " << NameOf(encoding));
      CHECK(std::abs(sums[i] / kTimes - exact) <= 4 * sigma + 1e-4);
    }
  }
}

// The mean of v / its closed form after `steps` steps of a decay by 0.999 in storage.
double Drift(Encoding encoding, uint64_t steps) {
  std::vector<float> v(1024);
  double before = 0, after = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] = 1e-8f * (0.5f + 0.5f * float(Mix(i) >> 40) / float(1 << 24));
    before += double(v[i]);
  }
  for (uint64_t step = 0; step < steps; ++step) {
    for (float& x : v) x *= 0.999f;
    v = RoundTrip(encoding, v, {RoundingKey(8, 9), step, 2, 0});
  }
  for (const float x : v) after += double(x);
  return after / before / std::pow(double(0.999f), double(steps)) - 1;
}

TEST_CASE("a second moment that decays by a thousandth a step follows its closed form") {
  const double q8 = Drift(Encoding::kQ8Second, 5000);
  const double bf16 = Drift(Encoding::kBf16, 5000);
  const double fp8 = Drift(Encoding::kFp8Second, 5000);
  printf("drift after 5000 steps: q8 %+.4f, bf16 %+.4f, fp8 %+.4f\n", q8, bf16, fp8);
  CHECK(std::abs(q8) <= 0.02);
  CHECK(std::abs(bf16) <= 0.02);
  // The control: rounded to the nearest it stays where it was, hundreds of times too high.
  CHECK(Drift(Encoding::kBf16Nearest, 5000) > 10);
}

}  // namespace
}  // namespace parkade::store
