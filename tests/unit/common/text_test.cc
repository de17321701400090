// Fixed text fields of messages.
#include "common/text.h"

#include <catch2/catch.hpp>
#include <string>

namespace parkade {
namespace {

TEST_CASE("text is padded, cut with a NUL, and read back") {
  char field[8];
  memset(field, 'z', sizeof field);
  CopyText(field, "ab");
  CHECK(std::string(field, 8) == std::string("ab\0\0\0\0\0\0", 8));
  CHECK(ReadText(field) == "ab");
  CopyText(field, "123456789");
  CHECK(ReadText(field) == "1234567");
}

TEST_CASE("a field without a NUL is read to its end and no further") {
  char field[4] = {'a', 'b', 'c', 'd'};
  CHECK(ReadText(field) == "abcd");
}

}  // namespace
}  // namespace parkade
