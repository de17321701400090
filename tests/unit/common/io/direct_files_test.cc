// Direct where possible, and out of the page cache where not.
#include "common/io/direct_files.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "common/io/page_cache.h"
#include "tests/unit/common/io/temporary_file.h"

namespace parkade {
namespace {

struct Aligned {
  explicit Aligned(Bytes bytes)
      : memory(static_cast<char*>(std::aligned_alloc(kDirectAlign, bytes))) {}
  ~Aligned() { std::free(memory); }
  char* memory;
};

TEST_CASE("adopted files take aligned reads and writes") {
  Fd files[] = {TemporaryFile(1_MiB), TemporaryFile(8192 + 100)};
  auto adopted = DirectFiles::Adopt(files);
  REQUIRE(adopted.ok());
  CHECK(adopted->capacity(0) == 1_MiB);
  CHECK(adopted->capacity() == 1_MiB + 8192);  // whole blocks alone
  Aligned out(8192), in(8192);
  memset(out.memory, 'x', 8192);
  for (const int fd : adopted->fds()) {
    REQUIRE(pwrite(fd, out.memory, 8192, 0) == 8192);
    REQUIRE(pread(fd, in.memory, 8192, 0) == 8192);
    CHECK(memcmp(in.memory, out.memory, 8192) == 0);
  }
}

TEST_CASE("a file whose file system has no direct I/O stays buffered and says why") {
  const int memory = memfd_create("parkade-unit", MFD_CLOEXEC);
  if (memory < 0) return;
  Fd files[] = {Fd(memory)};
  REQUIRE(ftruncate(memory, 128 << 20) == 0);
  auto adopted = DirectFiles::Adopt(files);
  REQUIRE(adopted.ok());
  // Kernels from 6.6 on take O_DIRECT on tmpfs; then there is nothing to fall back from.
  if (adopted->buffered_because()[0] == '\0') return;
  PageCacheLimit limit(*adopted);
  std::vector<char> block(1 << 20, 'y');
  for (uint64_t at = 0; at < 128_MiB; at += block.size()) {
    REQUIRE(pwrite(adopted->fds()[0], block.data(), block.size(), off_t(at)) > 0);
    REQUIRE(limit.Wrote(0, at, block.size()).ok());
  }
  REQUIRE(limit.Flush().ok());
}

TEST_CASE("what is no regular file is refused") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const Fd reader(ends[0]);
  Fd files[] = {Fd(ends[1])};
  auto adopted = DirectFiles::Adopt(files);
  REQUIRE_FALSE(adopted.ok());
  CHECK(adopted.error().code == Code::kInvalidArgument);
  CHECK(files[0].get() >= 0);  // still the caller's
}

}  // namespace
}  // namespace parkade
