// What becomes of LD_PRELOAD, and which programs and libraries are refused.
#include "cli/preload.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/cli/runner.h"

namespace parkade::cli {
namespace {

namespace fs = std::filesystem;

std::string MakeFile(const std::string& path) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << "x";
  return path;
}

}  // namespace

TEST_CASE("the library is put behind what is preloaded already") {
  TestDirectory dir;
  const std::string ours = MakeFile(dir / "libparkade.so");
  CHECK(*MergePreload("", ours) == ours);
  CHECK(*MergePreload("/a.so", ours) == "/a.so:" + ours);
  CHECK(*MergePreload("/a.so /b.so", ours) == "/a.so /b.so:" + ours);
  CHECK(*MergePreload("/a.so:/b.so:", ours) == "/a.so:/b.so::" + ours);
}

TEST_CASE("a library that is preloaded already is not put there twice") {
  TestDirectory dir;
  const std::string ours = MakeFile(dir / "lib/libparkade.so");
  fs::create_symlink(ours, dir / "link.so");
  fs::create_directory_symlink(dir / "lib", dir / "lib2");
  for (const std::string& before :
       {ours, "/a.so:" + ours, ours + " /a.so", dir / "link.so", "/a.so " + (dir / "link.so"),
        (dir / "lib2/libparkade.so") + ":/a.so", dir / "lib/../lib/libparkade.so"}) {
    INFO(before);
    CHECK(*MergePreload(before, ours) == before);
  }
}

TEST_CASE("an entry without a slash is the file that the loader would find") {
  TestDirectory dir;
  const std::string ours = MakeFile(dir / "lib/libparkade.so");
  setenv("LD_LIBRARY_PATH", ("/nowhere:" + (dir / "lib")).c_str(), 1);
  CHECK(*MergePreload("libparkade.so", ours) == "libparkade.so");
  unsetenv("LD_LIBRARY_PATH");
  CHECK(MergePreload("libparkade.so", ours).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("another Parkade in LD_PRELOAD is refused") {
  TestDirectory dir;
  const std::string ours = MakeFile(dir / "new/libparkade.so");
  const std::string other = MakeFile(dir / "old/libparkade.so");
  const auto merged = MergePreload(other, ours);
  REQUIRE(merged.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(merged.status().message()).find(other) != std::string::npos);
}

TEST_CASE("a path with a separator of LD_PRELOAD is refused") {
  CHECK_FALSE(MergePreload("", "/a b/libparkade.so").ok());
  CHECK_FALSE(MergePreload("", "/a:b/libparkade.so").ok());
}

TEST_CASE("a library that exists but does not load is refused") {
  TestDirectory dir;
  const auto garbage = CheckLibrary(MakeFile(dir / "libparkade.so"));
  CHECK(garbage.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(std::string(garbage.message()).find("does not load") != std::string::npos);
  const auto stranger = CheckLibrary("libc.so.6");
  CHECK(std::string(stranger.message()).find("is not Parkade's") != std::string::npos);
  CHECK(CheckLibrary(PARKADE_FIXTURE).ok());
}

TEST_CASE("PARKADE_LIBRARY comes first and has to exist") {
  setenv("PARKADE_LIBRARY", PARKADE_FIXTURE, 1);
  CHECK(*FindLibrary() == PARKADE_FIXTURE);
  setenv("PARKADE_LIBRARY", "/nowhere/libparkade.so", 1);
  CHECK(FindLibrary().status().code() == absl::StatusCode::kNotFound);
  unsetenv("PARKADE_LIBRARY");
}

TEST_CASE("commands are looked up as execvp does") {
  CHECK(LookUp("/bin/sh") == "/bin/sh");
  CHECK_FALSE(LookUp("sh").empty());
  CHECK(LookUp("no-such-command-anywhere").empty());
}

TEST_CASE("programs for which the loader ignores LD_PRELOAD are refused") {
  TestDirectory dir;
  const std::string program = MakeFile(dir / "program");
  chmod(program.c_str(), 0755);
  CHECK(CheckTakesPreload(program).ok());
  CHECK(CheckTakesPreload(dir / "missing").ok());  // exec says so itself
  // Setuid to oneself changes nothing; to another user needs root to set up.
  chmod(program.c_str(), 04755);
  CHECK(CheckTakesPreload(program).ok());
  if (geteuid() == 0) {
    REQUIRE(chown(program.c_str(), 12345, gid_t(-1)) == 0);
    chmod(program.c_str(), 04755);
    CHECK(CheckTakesPreload(program).code() == absl::StatusCode::kFailedPrecondition);
    REQUIRE(chown(program.c_str(), 0, 12345) == 0);
    chmod(program.c_str(), 02755);
    CHECK(CheckTakesPreload(program).code() == absl::StatusCode::kFailedPrecondition);
    chmod(program.c_str(), 02745);
    CHECK(CheckTakesPreload(program).ok());
  }
}

}  // namespace parkade::cli
