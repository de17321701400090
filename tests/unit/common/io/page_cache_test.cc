// What is in the page cache, and what is kept out of it.
#include "common/io/page_cache.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/unit/common/io/temporary_file.h"

namespace parkade {
namespace {

constexpr Bytes kBlock = 1_MiB;

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};
std::unique_ptr<char, Free> AlignedBlock() {
  std::unique_ptr<char, Free> block(static_cast<char*>(std::aligned_alloc(kDirectAlign, kBlock)));
  std::fill_n(block.get(), kBlock, 'x');
  return block;
}

Bytes Cached(int fd, Bytes bytes) {
  const auto cached = CachedBytes(fd, 0, bytes);
  REQUIRE(cached);
  return *cached;
}

// Writes, then reads all of the file through `limit`; the most that was ever cached of it.
Bytes MostCached(const DirectFiles& files, PageCacheLimit& limit) {
  const int fd = files.fds()[0];
  const auto block = AlignedBlock();
  Bytes most = 0;
  for (uint64_t at = 0; at < files.capacity(); at += kBlock) {
    REQUIRE(pwrite(fd, block.get(), kBlock, off_t(at)) == ssize_t(kBlock));
    REQUIRE(limit.Wrote(0, at, kBlock).ok());
    most = std::max(most, Cached(fd, files.capacity()));
  }
  REQUIRE(limit.Flush().ok());
  for (uint64_t at = 0; at < files.capacity(); at += kBlock) {
    REQUIRE(pread(fd, block.get(), kBlock, off_t(at)) == ssize_t(kBlock));
    limit.HasRead(0, at, kBlock);
    most = std::max(most, Cached(fd, files.capacity()));
  }
  return most;
}

TEST_CASE("what goes through the page cache is seen there, and what goes round it is not") {
  const Fd file = TemporaryFile(4 * kBlock);
  const auto block = AlignedBlock();
  CHECK(Cached(file.get(), 4 * kBlock) == 0);
  REQUIRE(pwrite(file.get(), block.get(), kBlock, off_t(kBlock)) == ssize_t(kBlock));
  CHECK(Cached(file.get(), 4 * kBlock) == kBlock);
  CHECK(CachedBytes(file.get(), 0, kBlock) == Bytes(0));
  CHECK(CachedBytes(-1, 0, kBlock) == std::nullopt);

  Fd files[] = {TemporaryFile(4 * kBlock)};
  auto adopted = DirectFiles::Adopt(files);
  REQUIRE(adopted.ok());
  if (!adopted->direct(0)) return;  // the build folder's file system has no direct I/O
  PageCacheLimit limit(*adopted);
  CHECK(MostCached(*adopted, limit) == 0);
  CHECK_FALSE(limit.found_cached());

  // Somebody else reads the file in the ordinary way: it is no less direct for that.
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", adopted->fds()[0]);
  const Fd ordinary(open(path, O_RDONLY | O_CLOEXEC));
  REQUIRE(pread(ordinary.get(), block.get(), kBlock, 0) == ssize_t(kBlock));
  REQUIRE(Cached(ordinary.get(), kBlock) == kBlock);
  PageCacheLimit later(*adopted);
  later.WillRead(0, 0, kBlock);
  REQUIRE(pread(adopted->fds()[0], block.get(), kBlock, 0) == ssize_t(kBlock));
  later.HasRead(0, 0, kBlock);
  CHECK_FALSE(later.found_cached());
}

TEST_CASE("of a file that is cached in spite of O_DIRECT no more stays than the window") {
  Fd files[] = {TemporaryFile(48 * kBlock)};
  auto adopted = DirectFiles::Adopt(files);
  REQUIRE(adopted.ok());
  // As a file system that takes the flag and caches all the same.
  const int fd = adopted->fds()[0];
  REQUIRE(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_DIRECT) == 0);
  constexpr Bytes kWindow = 8 * kBlock;
  PageCacheLimit limit(*adopted, kWindow);
  const Bytes most = MostCached(*adopted, limit);
  CHECK(most >= kBlock);
  CHECK(most <= kWindow + kBlock);
  CHECK((limit.found_cached() || !adopted->direct(0)));
  CHECK(Cached(fd, adopted->capacity()) <= kBlock);
}

}  // namespace
}  // namespace parkade
