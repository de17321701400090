// What a forked child lets go of, and what it keeps.
#include "shim/libc/inherited_files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

namespace parkade::shim {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST_CASE("files beneath the folder are closed, removed ones too, and nothing else") {
  char name[] = "/tmp/inherited-XXXXXX";
  REQUIRE(mkdtemp(name) != nullptr);
  const std::string folder = std::string(name) + "/parkade-v1";
  REQUIRE(mkdir(folder.c_str(), 0700) == 0);
  std::vector<int> inside;
  // More than one buffer of directory entries holds.
  for (int i = 0; i < 300; ++i) {
    inside.push_back(open((folder + "/f" + std::to_string(i)).c_str(), O_CREAT | O_RDWR, 0600));
    REQUIRE(inside.back() >= 0);
  }
  REQUIRE(unlink((folder + "/f7").c_str()) == 0);
  const int outside = open((std::string(name) + "/other").c_str(), O_CREAT | O_RDWR, 0600);
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);

  CloseInheritedFiles("/parkade-v1/");
  for (const int fd : inside) CHECK_FALSE(IsOpen(fd));
  CHECK(IsOpen(outside));
  CHECK(IsOpen(pipes[0]));
  for (const int fd : {outside, pipes[0], pipes[1]}) close(fd);
  std::filesystem::remove_all(name);
}

}  // namespace
}  // namespace parkade::shim
