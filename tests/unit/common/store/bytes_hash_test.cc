// One digest for bytes of any length.
#include "common/store/bytes_hash.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace parkade::store {
namespace {

TEST_CASE("lengths, zeros at the end and blocks beyond the first all count") {
  std::vector<Digest> digests;
  for (const size_t size : {0, 1, 2, 4095, 4096, 4097, 2 << 20, (2 << 20) + 1, 5 << 20}) {
    digests.push_back(HashBytes(std::string(size, '\0')));
  }
  for (size_t a = 0; a < digests.size(); ++a) {
    for (size_t b = 0; b < a; ++b) CHECK_FALSE(digests[a] == digests[b]);
  }
  std::string text(5 << 20, 'x');
  const Digest before = HashBytes(text);
  CHECK(before == HashBytes(text));
  for (const size_t at : {0, 4095, 2 << 20, (5 << 20) - 1}) {
    text[at] ^= 1;
    CHECK_FALSE(HashBytes(text) == before);
    text[at] ^= 1;
  }
}

}  // namespace
}  // namespace parkade::store
