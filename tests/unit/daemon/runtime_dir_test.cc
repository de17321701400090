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

TEST_CASE("each part of the path is looked at, and the one that is wrong is named") {
  const TestDir dir;
  const auto refusal = [](const std::string& path) {
    const auto opened = RuntimeDir::Open(path);
    CHECK(ReasonOf(opened.status()) == "UNSAFE_DIRECTORY");
    return MessageOf(opened.status());
  };
  const auto has = [](const std::string& text, const std::string& words) {
    INFO(text);
    return text.find(words) != std::string::npos;
  };
  const std::string open_to_all = dir.Make("open", 0777);
  CHECK(has(refusal(open_to_all + "/a/run"), open_to_all + " can be changed by every user"));
  CHECK_FALSE(std::filesystem::exists(open_to_all + "/a"));
  std::filesystem::permissions(open_to_all, std::filesystem::perms(01777));
  CHECK(RuntimeDir::Open(open_to_all + "/a/run").ok());
  CHECK(has(refusal(open_to_all), "can be written to"));  // sticky is not enough for its own

  const std::string grouped = dir.Make("grouped", 0770);
  if (geteuid() == 0) {
    REQUIRE(chown(grouped.c_str(), 0, 65534) == 0);
    CHECK(has(refusal(grouped + "/run"), "by its group"));
    const std::string theirs = dir.Make("theirs");
    REQUIRE(chown(theirs.c_str(), 65534, 65534) == 0);
    CHECK(has(refusal(theirs), "belongs to user 65534"));
    CHECK(has(refusal(theirs + "/run"), "belongs to user 65534"));
    // A link planted where others may write.
    std::filesystem::create_directory_symlink(dir / "open/a", dir / "open/planted");
    REQUIRE(lchown((dir / "open/planted").c_str(), 65534, 65534) == 0);
    CHECK(has(refusal(dir / "open/planted/run"), "planted belongs to user 65534"));
  }
  // One's own link is one's own choice, as /var/run is the distribution's.
  std::filesystem::create_directory_symlink(dir / "open/a", dir / "own");
  CHECK(RuntimeDir::Open(dir / "own/below").ok());
  std::filesystem::create_directory_symlink(dir / "loop", dir / "loop");
  CHECK(has(refusal(dir / "loop/run"), "symbolic link"));
  CHECK_FALSE(RuntimeDir::Open("relative/run").ok());
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
