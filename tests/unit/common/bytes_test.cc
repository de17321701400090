// Sizes as people write them.
#include "common/bytes.h"

#include <catch2/catch.hpp>

namespace parkade {
namespace {

TEST_CASE("sizes are read with every usual unit, as powers of 1024") {
  const struct {
    const char* text;
    Bytes bytes;
  } kCases[] = {{"1", 1},
                {"4096", 4096},
                {"7B", 7},
                {"512K", 512_KiB},
                {"512k", 512_KiB},
                {"3KB", 3_KiB},
                {"3kib", 3_KiB},
                {"256M", 256_MiB},
                {"2GiB", 2_GiB},
                {"2Gi", 2_GiB},
                {"1T", 1024_GiB},
                {"16TiB", 16384_GiB},
                {"18014398509481983K", 18014398509481983ULL << 10}};
  for (const auto& c : kCases) {
    INFO(c.text);
    const auto read = ParseBytes(c.text);
    REQUIRE(read.ok());
    CHECK(*read == c.bytes);
  }
}

TEST_CASE("sizes that cannot be meant are refused") {
  for (const char* text : {"", "0", "0G", "-1", "+1", " 1", "1 ", "1.5G", "G", "1X", "1KiBB", "1iB",
                           "0x10", "18446744073709551616", "18014398509481984K", "1e9", "1G1"}) {
    INFO(text);
    const auto read = ParseBytes(text);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().code == Code::kInvalidArgument);
    CHECK(std::string(read.error().reason) == "BAD_SIZE");
    CHECK(std::string(read.error().what).find(text) != std::string::npos);
  }
}

TEST_CASE("rounding up keeps multiples") {
  CHECK(RoundUp(0, 4096) == 0);
  CHECK(RoundUp(1, 4096) == 4096);
  CHECK(RoundUp(4096, 4096) == 4096);
  CHECK(RoundUp(4097, 4096) == 8192);
}

}  // namespace
}  // namespace parkade
