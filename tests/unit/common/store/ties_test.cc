// The tie map in bytes: list or bits, whichever is shorter, and no wrong one accepted.
#include "common/store/ties.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

namespace parkade::store {
namespace {

constexpr uint64_t kNumel = 4096;

std::vector<uint32_t> BitsAt(const std::vector<uint32_t>& positions) {
  std::vector<uint32_t> bits(kNumel / 32);
  for (const uint32_t position : positions) bits[position / 32] |= 1u << position % 32;
  return bits;
}

std::vector<uint8_t> Packed(const std::vector<uint32_t>& bits) {
  std::vector<uint8_t> bytes(TieMapBytes(CountTies(bits), kNumel));
  PackTies(bits, CountTies(bits), bytes);
  return bytes;
}

std::string ReasonOf(const Result<void>& r) { return r.ok() ? "" : r.error().reason; }

TEST_CASE("a map of few ties is a list, one of many is the bits, and none is nothing") {
  CHECK(TieMapBytes(0, kNumel) == 0);
  CHECK(TieMapBytes(3, kNumel) == 12);
  CHECK(TieMapBytes(128, kNumel) == 512);
  CHECK(TieMapBytes(4096, kNumel) == 512);
  CHECK(TieMapBytes(~0u, kNumel) == 512);
}

TEST_CASE("every map comes back as it was") {
  for (const size_t count : {0, 1, 2, 31, 127, 128, 129, 1000, 4096}) {
    std::vector<uint32_t> positions;
    for (size_t i = 0; i < count; ++i) positions.push_back(uint32_t(i * kNumel / (count + 1)));
    if (count > 1) positions.back() = kNumel - 1;
    const auto bits = BitsAt(positions);
    std::vector<uint32_t> back(kNumel / 32, 0xabababab);
    REQUIRE(UnpackTies(Packed(bits), CountTies(bits), back).ok());
    CHECK(back == bits);
  }
}

TEST_CASE("a list out of order or range, and bits of another number, are refused") {
  std::vector<uint32_t> back(kNumel / 32);
  const auto unpack = [&back](const std::vector<uint32_t>& list) {
    std::vector<uint8_t> bytes(list.size() * 4);
    memcpy(bytes.data(), list.data(), bytes.size());
    return ReasonOf(UnpackTies(bytes, uint32_t(list.size()), back));
  };
  CHECK(unpack({1, 2, 3}) == "");
  CHECK(unpack({1, 1}) == "BAD_TIE_MAP");
  CHECK(unpack({2, 1}) == "BAD_TIE_MAP");
  CHECK(unpack({kNumel - 1}) == "");
  CHECK(unpack({kNumel}) == "BAD_TIE_MAP");
  CHECK(unpack({~0u}) == "BAD_TIE_MAP");
  std::vector<uint8_t> bits(512, 0xff);
  CHECK(ReasonOf(UnpackTies(bits, 4096, back)) == "");
  CHECK(ReasonOf(UnpackTies(bits, 4095, back)) == "BAD_TIE_MAP");
}

}  // namespace
}  // namespace parkade::store
