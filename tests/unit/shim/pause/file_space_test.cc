// Space is taken from several files by their sizes, and never more than there is.
#include "shim/pause/file_space.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>

#include "tests/unit/common/io/temporary_file.h"

namespace parkade::shim {
namespace {

DirectFiles Adopted(std::initializer_list<Bytes> sizes) {
  std::vector<Fd> files;
  for (const Bytes size : sizes) files.push_back(TemporaryFile(size));
  auto adopted = DirectFiles::Adopt(files);
  REQUIRE(adopted.ok());
  return std::move(*adopted);
}

TEST_CASE("a file three times as large gets three blocks for each of the other's") {
  const DirectFiles files = Adopted({16_MiB, 48_MiB});
  FileSpace space(files, 1_GiB);
  Bytes used[2] = {0, 0};
  for (int block = 1; block <= 64; ++block) {
    const auto part = space.Take(1_MiB);
    REQUIRE(part.ok());
    CHECK(part->bytes == 1_MiB);
    CHECK(part->offset == used[part->file]);  // no gaps: each file is read in one go
    used[part->file] += part->bytes;
    CHECK(3 * used[0] + 3_MiB >= used[1]);
    CHECK(used[1] + 3_MiB >= 3 * used[0]);
  }
  CHECK(used[0] == 16_MiB);
  CHECK(used[1] == 48_MiB);
  const auto none = space.Take(4096);
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().code == Code::kResourceExhausted);
}

TEST_CASE("a part ends with its file, an empty file gives none, and the limit is for all") {
  const DirectFiles files = Adopted({0, 1_MiB + 4096, 512_KiB});
  FileSpace space(files, 1_MiB + 8192);
  Bytes sum = 0;
  for (;;) {
    const auto part = space.Take(1_MiB);
    if (!part.ok()) break;
    CHECK(part->file != 0);
    CHECK(part->offset + part->bytes <= files.capacity(part->file));
    CHECK(part->bytes % 4096 == 0);
    sum += part->bytes;
  }
  CHECK(sum == 1_MiB + 8192);
}

TEST_CASE("what a file holds already counts to its share and is given to nobody") {
  const DirectFiles files = Adopted({16_MiB, 16_MiB});
  FileSpace space(files, 1_GiB, {{0, 4_MiB, 8_MiB}});
  Bytes used[2] = {8_MiB, 0};
  for (int block = 1; block <= 24; ++block) {
    const auto part = space.Take(1_MiB);
    REQUIRE(part.ok());
    CHECK((part->file == 1 || part->offset + part->bytes <= 4_MiB || part->offset >= 12_MiB));
    used[part->file] += part->bytes;
    if (block <= 8) CHECK(used[0] == 8_MiB);
    if (block > 8) CHECK(used[1] <= used[0] + 1_MiB);
  }
  CHECK(used[0] == 16_MiB);
  CHECK(used[1] == 16_MiB);
  CHECK_FALSE(space.Take(4096).ok());
}

}  // namespace
}  // namespace parkade::shim
