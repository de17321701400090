// Reading small files that may be large ones.
#include "daemon/proc_file.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/unit/daemon/test_dir.h"

using namespace parkade::daemon;
using parkade::testing::TestDir;

namespace {

// Bytes that tell where they stand.
std::string Bytes(size_t count) {
  std::string bytes(count, 0);
  for (size_t i = 0; i < count; ++i) bytes[i] = char('a' + i % 23);
  return bytes;
}

}  // namespace

TEST_CASE("a file is read whole, up to the most that is asked for") {
  const TestDir dir;
  const std::string path = dir / "file";
  for (const size_t count : {0u, 1u, 65536u, 65537u, 131072u, 300'000u}) {
    std::ofstream(path, std::ios::trunc) << Bytes(count);
    CHECK(ReadProcFile(path, 8 << 20) == Bytes(count));
    CHECK(ReadProcFile(path, 100) == Bytes(std::min<size_t>(count, 100)));
    CHECK(ReadProcFile(path, 200'000) == Bytes(std::min<size_t>(count, 200'000)));
  }
  CHECK(ReadProcFile(dir / "none", 100).empty());
}

TEST_CASE("a few bytes cost no memory for the most that there could be") {
  const TestDir dir;
  std::ofstream(dir / "file") << "a few";
  CHECK(ReadProcFile(dir / "file", 8 << 20).capacity() < 1 << 20);
}
