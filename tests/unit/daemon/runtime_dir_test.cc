// The runtime directory: lock, sockets, and who may have made it.
#include "daemon/runtime_dir.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "daemon/status.h"
#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;
using parkade::testing::TestDir;

TEST_CASE("one daemon at a time has a runtime directory") {
  const TestDir dir;
  {
    const auto first = RuntimeDir::Open(dir / "a/b/run");
    REQUIRE(first.ok());
    const auto second = RuntimeDir::Open(dir / "a/b/run");
    CHECK(ReasonOf(second.status()) == "ALREADY_RUNNING");
    struct stat s;
    REQUIRE(stat((dir / "a/b/run").c_str(), &s) == 0);
    CHECK((s.st_mode & 0777) == 0755);
  }
  CHECK(RuntimeDir::Open(dir / "a/b/run").ok());
}

TEST_CASE("a directory that others can change is refused") {
  const TestDir dir;
  dir.Make("open", 0777);
  CHECK(ReasonOf(RuntimeDir::Open(dir / "open").status()) == "UNSAFE_DIRECTORY");
  const std::string real = dir.Make("real");
  std::filesystem::create_directory_symlink(real, dir / "link");
  CHECK(ReasonOf(RuntimeDir::Open(dir / "link").status()) == "UNSAFE_DIRECTORY");
}

TEST_CASE("a stale socket is replaced and the new one is open to all users") {
  const TestDir dir;
  const std::string path = dir / "s";
  { const Fd stale = std::move(*ListenAt(path, SOCK_STREAM)); }
  const auto again = ListenAt(path, SOCK_STREAM);
  REQUIRE(again.ok());
  struct stat s;
  REQUIRE(stat(path.c_str(), &s) == 0);
  CHECK((s.st_mode & 0777) == 0666);
  CHECK_FALSE(ListenAt(dir / std::string(120, 'x'), SOCK_STREAM).ok());
}
