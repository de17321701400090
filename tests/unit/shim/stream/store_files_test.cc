// A store's directory: one owner at a time, taken over when that has died, gone at the end.
#include "shim/stream/store_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/unit/daemon/test_dir.h"

namespace parkade::shim {
namespace {

StoreFiles::Wanted WantedIn(const testing::TestDir& dir) {
  StoreFiles::Wanted wanted;
  wanted.bases = {dir.path()};
  wanted.name = "rank0";
  wanted.file_bytes = {8192, 4096};
  wanted.in_memory_too = true;
  return wanted;
}

TEST_CASE("a store's directory is the owner's alone, and goes with it") {
  const testing::TestDir dir;
  {
    auto files = StoreFiles::Open(WantedIn(dir));
    REQUIRE(files.ok());
    CHECK((*files)->TakeBuckets().size() == 2);
    struct stat info = {};
    REQUIRE(stat((dir / "parkade-store-rank0").c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0700);
    REQUIRE(stat((dir / "parkade-store-rank0/bucket-0000000").c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    CHECK(info.st_size == 8192);
    const auto second = StoreFiles::Open(WantedIn(dir));
    REQUIRE_FALSE(second.ok());
    CHECK(std::string_view(second.error().reason) == "STORE_IN_USE");
  }
  CHECK(testing::Entries(dir.path()) == 0);
}

TEST_CASE("files are dealt out over several directories, and go from all") {
  const testing::TestDir dir;
  auto wanted = WantedIn(dir);
  wanted.bases = {dir.Make("a"), dir.Make("b")};
  {
    auto files = StoreFiles::Open(wanted);
    REQUIRE(files.ok());
    CHECK(access((dir / "a/parkade-store-rank0/bucket-0000000").c_str(), F_OK) == 0);
    CHECK(access((dir / "b/parkade-store-rank0/bucket-0000001").c_str(), F_OK) == 0);
  }
  CHECK(testing::Entries(dir / "a") == 0);
  CHECK(testing::Entries(dir / "b") == 0);
}

TEST_CASE("what a dead owner has left is taken over, and cleared unless it was kept") {
  const testing::TestDir dir;
  const pid_t child = fork();
  if (child == 0) {
    auto files = StoreFiles::Open(WantedIn(dir));
    _exit(files.ok() && write((*files)->TakeBuckets()[0].get(), "x", 1) == 1 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  CHECK(testing::Entries(dir.path()) == 1);
  auto wanted = WantedIn(dir);
  wanted.take = StoreFiles::Take::kKept;
  {
    auto files = StoreFiles::Open(wanted);
    REQUIRE(files.ok());
    char c = 0;
    REQUIRE(pread((*files)->TakeBuckets()[0].get(), &c, 1, 0) == 1);
    CHECK(c == 'x');
    (*files)->SetKeeps(true);
  }
  wanted.file_bytes = {4096, 4096};
  const auto other = StoreFiles::Open(wanted);
  REQUIRE_FALSE(other.ok());
  CHECK(std::string_view(other.error().reason) == "OTHER_FILES");
  CHECK(testing::Entries(dir.path()) == 1);  // a store that is refused stays
  {
    auto files = StoreFiles::Open(WantedIn(dir));
    REQUIRE(files.ok());
    char c = 'y';
    REQUIRE(pread((*files)->TakeBuckets()[0].get(), &c, 1, 0) == 1);
    CHECK(c == 0);
  }
  CHECK(testing::Entries(dir.path()) == 0);
}

TEST_CASE("a store is refused where it cannot be, by name, and leaves nothing") {
  const testing::TestDir dir;
  auto wanted = WantedIn(dir);
  wanted.take = StoreFiles::Take::kKept;
  auto refused = StoreFiles::Open(wanted);
  REQUIRE_FALSE(refused.ok());
  CHECK(std::string_view(refused.error().reason) == "NO_STORE");
  CHECK(testing::Entries(dir.path()) == 0);

  wanted = WantedIn(dir);
  wanted.bases.push_back(dir / "missing");
  refused = StoreFiles::Open(wanted);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().os_errno == ENOENT);

  wanted = WantedIn(dir);
  wanted.bases = {"/dev/shm"};
  wanted.in_memory_too = false;
  refused = StoreFiles::Open(wanted);
  REQUIRE_FALSE(refused.ok());
  CHECK(std::string_view(refused.error().reason) == "MEMORY_FILE_SYSTEM");

  wanted = WantedIn(dir);
  wanted.file_bytes = {Bytes(1) << 60};
  refused = StoreFiles::Open(wanted);
  REQUIRE_FALSE(refused.ok());
  CHECK(testing::Entries(dir.path()) == 0);
}

TEST_CASE("a directory that a link stands in for is not followed") {
  const testing::TestDir dir;
  const std::string target = dir.Make("target");
  std::ofstream(target + "/state") << "somebody's";
  std::filesystem::create_directory_symlink(target, dir / "parkade-store-rank0");
  CHECK_FALSE(StoreFiles::Open(WantedIn(dir)).ok());
  CHECK(std::filesystem::exists(target + "/state"));
}

}  // namespace
}  // namespace parkade::shim
