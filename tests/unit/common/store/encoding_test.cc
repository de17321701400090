// Encodings by name and size, and both ways over ranges of a bucket.
#include "common/store/encoding.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace parkade::store {
namespace {

constexpr Encoding kAll[] = {Encoding::kFp32,     Encoding::kBf16,      Encoding::kBf16Nearest,
                             Encoding::kFp16,     Encoding::kQ8First,   Encoding::kQ8Second,
                             Encoding::kFp8First, Encoding::kFp8Second, Encoding::kLo16};

// One segment of a bucket in memory, with weights beside it.
struct Held {
  Segment segment;
  uint64_t numel;
  std::vector<uint8_t> bytes = std::vector<uint8_t>(EncodedBytes(segment, numel), 0xee);
  std::vector<uint16_t> bf16 = std::vector<uint16_t>(numel);
  std::vector<uint32_t> ties = std::vector<uint32_t>(numel / 32);

  Weights weights() { return {bf16, ties}; }
  Result<void> Put(const std::vector<float>& values, Range range, const Rounding& rounding) {
    return Encode(segment, values.data(), numel, range, rounding, weights(), bytes.data());
  }
  std::vector<float> Get(Range range) {
    std::vector<float> values(numel, -7.0f);
    Decode(segment, bytes.data(), numel, range, weights(), values.data());
    return values;
  }
};

std::vector<float> Values(uint64_t numel, uint64_t seed = 1) {
  std::vector<float> values(numel);
  for (uint64_t i = 0; i < numel; ++i) {
    values[i] = std::ldexp(float(Mix(seed * 1000003 + i) >> 40), -24 - int(i % 7));
  }
  return values;
}

std::string ReasonOf(const Result<Encoding>& r) { return r.ok() ? "" : r.error().reason; }

TEST_CASE("encodings are read by name, and moments take their own") {
  CHECK(*ParseEncoding("fp32", "main") == Encoding::kFp32);
  CHECK(*ParseEncoding("bf16", "exp_avg") == Encoding::kBf16);
  CHECK(*ParseEncoding("bf16-nearest", "exp_avg_sq") == Encoding::kBf16Nearest);
  CHECK(*ParseEncoding("q8", "exp_avg") == Encoding::kQ8First);
  CHECK(*ParseEncoding("q8", "exp_avg_sq") == Encoding::kQ8Second);
  CHECK(*ParseEncoding("q8", "max_exp_avg_sq") == Encoding::kQ8Second);
  CHECK(*ParseEncoding("q8", "momentum_buffer") == Encoding::kQ8First);
  CHECK(*ParseEncoding("fp8", "exp_avg_sq") == Encoding::kFp8Second);
  CHECK(*ParseEncoding("lo16", "main") == Encoding::kLo16);
  CHECK(*ParseEncoding("raw", "state1") == Encoding::kRaw);
  CHECK(ReasonOf(ParseEncoding("q8", "main")) == "ENCODING_OF_MAIN");
  CHECK(ReasonOf(ParseEncoding("lo16", "exp_avg")) == "LO16_OF_MOMENT");
  CHECK(ReasonOf(ParseEncoding("int4", "exp_avg")) == "UNKNOWN_ENCODING");
  for (const Encoding encoding : kAll) CHECK(std::string(NameOf(encoding)) != "");
  CHECK(std::string(NameOf(Encoding(99))) == "");
}

TEST_CASE("a bare cast to fp8 is refused with the reason") {
  for (const char* name : {"e4m3", "fp8_e4m3", "float8_e4m3fn", "e5m2"}) {
    const auto r = ParseEncoding(name, "exp_avg_sq");
    CHECK(ReasonOf(r) == "BARE_FP8");
    CHECK(std::string(r.error().what).find("into zero") != std::string::npos);
    CHECK(std::string(r.error().what).find("q8") != std::string::npos);
  }
}

TEST_CASE("bytes per element are those of the plan") {
  const auto per_mille = [](Encoding encoding) {
    return EncodedBytes({"s", encoding}, 32000) / 32;
  };
  CHECK(per_mille(Encoding::kFp32) == 4000);
  CHECK(per_mille(Encoding::kBf16) == 2000);
  CHECK(per_mille(Encoding::kLo16) == 2000);
  CHECK(per_mille(Encoding::kQ8First) == 1062);  // 1.0625
  CHECK(per_mille(Encoding::kQ8Second) == 1062);
  CHECK(per_mille(Encoding::kFp8First) == 1031);
  CHECK(EncodedBytes({"s", Encoding::kRaw, 36}, 320) == 360);
  CHECK(ScalesAt({"s", Encoding::kQ8First}, 320) == 320);
  CHECK(ScalesAt({"s", Encoding::kFp32}, 320) == 1280);
}

TEST_CASE("fp32 and lo16 give every value back bit for bit, without touching the rest") {
  for (const Encoding encoding : {Encoding::kFp32, Encoding::kLo16}) {
    Held held{{"main", encoding}, 256};
    std::vector<float> values(256);
    for (uint32_t i = 0; i < 256; ++i) values[i] = FloatOf(uint32_t(Mix(i)) | (i % 3 ? 0 : 0x8000));
    values[70] = FloatOf(0x3f7f8000);
    values[71] = FloatOf(0x3f808000);
    values[72] = INFINITY;
    values[73] = -0.0f;
    values[74] = FloatOf(0xff7f8000);
    const auto before = held.bytes;
    REQUIRE(held.Put(values, {69, 133}, {}).ok());
    const auto back = held.Get({69, 133});
    CHECK(memcmp(&back[69], &values[69], 64 * sizeof(float)) == 0);
    const Bytes size = encoding == Encoding::kFp32 ? 4 : 2;
    CHECK(memcmp(held.bytes.data(), before.data(), 69 * size) == 0);
    CHECK(memcmp(held.bytes.data() + 133 * size, before.data() + 133 * size, (256 - 133) * size) ==
          0);
    CHECK(back[68] == -7.0f);
    CHECK(back[133] == -7.0f);
  }
}

TEST_CASE("a value that changes clears the bit of its former tie") {
  Held held{{"main", Encoding::kLo16}, 64};
  std::vector<float> values(64, FloatOf(0x3f7f8000));
  REQUIRE(held.Put(values, {0, 64}, {}).ok());
  CHECK(held.ties[0] == ~0u);
  values[5] = 1.5f;
  REQUIRE(held.Put(values, {0, 64}, {}).ok());
  CHECK(held.ties[0] == ~(1u << 5));
  CHECK(held.Get({0, 64})[5] == 1.5f);
}

TEST_CASE("what is stored does not depend on where an element stands or how work is cut") {
  const uint64_t numel = 1024;
  for (const Encoding encoding : kAll) {
    const Segment segment = {"s", encoding};
    const std::vector<float> values = Values(numel);
    Rounding rounding = {RoundingKey(5, 6), 7, 1, 0};
    Held whole{segment, numel};
    REQUIRE(whole.Put(values, {0, numel}, rounding).ok());
    const auto all = whole.Get({0, numel});
    // In pieces, as another bucket size makes them.
    Held pieces{segment, numel};
    for (const Range range : {Range{0, 96}, {96, 128}, {128, 992}, {992, 1024}}) {
      rounding.counter = range.begin;
      REQUIRE(pieces.Put(values, range, rounding).ok());
    }
    CHECK(pieces.bytes == whole.bytes);
    // 64 positions further on, the head of a group missing, as another rank's cut makes it.
    Held moved{segment, numel};
    std::vector<float> shifted(numel);
    memcpy(&shifted[64 + 100], &values[100], 600 * sizeof(float));
    rounding.counter = 100;
    REQUIRE(moved.Put(shifted, {164, 764}, rounding).ok());
    const auto part = moved.Get({164, 764});
    // Whole groups are the same; the two that are cut have scales of their own.
    CHECK(memcmp(&part[64 + 128], &all[128], (672 - 128) * sizeof(float)) == 0);
  }
}

TEST_CASE("what a piece leaves of its groups becomes zero") {
  Held held{{"s", Encoding::kQ8First}, 64};
  REQUIRE(held.Put(Values(64), {37, 50}, {}).ok());
  const auto values = held.Get({32, 64});
  for (uint64_t i = 32; i < 64; ++i) CHECK((values[i] == 0) == (i < 37 || i >= 50));
}

TEST_CASE("steps and segments have rounding bits of their own, and nearest has none") {
  const auto bytes = [](Encoding encoding, const Rounding& rounding) {
    Held held{{"s", encoding}, 256};
    REQUIRE(held.Put(Values(256), {0, 256}, rounding).ok());
    return held.bytes;
  };
  for (const Encoding encoding : kAll) {
    const auto base = bytes(encoding, {1, 2, 3, 0});
    CHECK((base == bytes(encoding, {1, 3, 3, 0})) == !IsStochastic(encoding));
    CHECK((base == bytes(encoding, {1, 2, 4, 0})) == !IsStochastic(encoding));
    CHECK((base == bytes(encoding, {1, 2, 3, 4})) == !IsStochastic(encoding));
    CHECK(bytes(encoding, {.key = 1, .nearest = true}) ==
          bytes(encoding, {.key = 2, .nearest = true}));
  }
}

TEST_CASE("what cannot be held is reported before a byte is written") {
  const auto refuse = [](Encoding encoding, float bad) {
    Held held{{"s", encoding}, 128};
    std::vector<float> values = Values(128);
    values[77] = bad;
    values[90] = bad;
    const auto before = held.bytes;
    const auto r = held.Put(values, {32, 128}, {});
    CHECK(held.bytes == before);
    if (r.ok()) return std::string();
    CHECK(std::string(r.error().what).find("position 77") != std::string::npos);
    return std::string(r.error().reason);
  };
  for (const Encoding encoding : kAll) {
    if (encoding == Encoding::kFp32 || encoding == Encoding::kLo16) continue;
    CHECK(refuse(encoding, NAN) == "NON_FINITE");
    CHECK(refuse(encoding, INFINITY) == "NON_FINITE");
    CHECK(refuse(encoding, -INFINITY) == "NON_FINITE");
  }
  CHECK(refuse(Encoding::kQ8Second, -1e-20f) == "NEGATIVE_SECOND_MOMENT");
  CHECK(refuse(Encoding::kFp8Second, -1.0f) == "NEGATIVE_SECOND_MOMENT");
  CHECK(refuse(Encoding::kFp16, 65520.0f) == "FP16_RANGE");
  Held held{{"s", Encoding::kQ8Second}, 32};
  CHECK(held.Put(std::vector<float>(32, -0.0f), {0, 32}, {}).ok());
}

TEST_CASE("weights that change are noticed by their sum, wherever they stand and in any order") {
  std::vector<uint16_t> weights(4096);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = uint16_t(Mix(i));
  const uint64_t sum = WeightSum(weights.data(), {0, 4096});
  CHECK(sum == WeightSum(weights.data(), {1000, 4096}) + WeightSum(weights.data(), {0, 1000}));
  for (const size_t at : {0, 1, 2047, 4095}) {
    weights[at] ^= 1;
    CHECK(WeightSum(weights.data(), {0, 4096}) != sum);
    weights[at] ^= 1;
  }
  std::swap(weights[3], weights[4]);
  CHECK(WeightSum(weights.data(), {0, 4096}) != sum);
}

}  // namespace
}  // namespace parkade::store
