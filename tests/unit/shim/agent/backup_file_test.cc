// The file without a name: nothing shows it, it grows, and stays where it is while it is in use.
#include "shim/agent/backup_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

namespace parkade::shim {
namespace {

struct Folder {
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path = "./backup-file-XXXXXX";
};

struct stat Look(const Fd& fd) {
  struct stat info {};
  REQUIRE(fstat(fd.get(), &info) == 0);
  return info;
}

Fd Reserved(BackupFile& file, const std::string& directory, Bytes bytes, bool in_use) {
  auto reserved = file.Reserve(directory, bytes, in_use);
  INFO((reserved.ok() ? "" : reserved.error().what));
  REQUIRE(reserved.ok());
  return std::move(*reserved);
}

TEST_CASE("the file has no name, its space is taken at once, and it grows") {
  Folder folder;
  BackupFile file;
  const Fd first = Reserved(file, folder.path, 1_MiB, false);
  CHECK(Look(first).st_nlink == 0);
  CHECK(Look(first).st_size == off_t(1_MiB));
  CHECK(Look(first).st_blocks * 512 >= off_t(1_MiB));
  CHECK((Look(first).st_mode & 0777) == 0600);
  CHECK(std::filesystem::is_empty(folder.path));
  REQUIRE(pwrite(first.get(), "bytes", 5, 0) == 5);
  const Fd second = Reserved(file, folder.path, 3_MiB, true);
  char found[5];
  REQUIRE(pread(second.get(), found, 5, 0) == 5);
  CHECK(std::string(found, 5) == "bytes");
  CHECK(Look(second).st_size == off_t(3_MiB));
  CHECK(Look(Reserved(file, folder.path, 2_MiB, false)).st_ino == Look(first).st_ino);
  CHECK(Look(first).st_size == off_t(3_MiB));
}

TEST_CASE("another directory counts once nothing is in use") {
  Folder one, other;
  BackupFile file;
  const Fd first = Reserved(file, one.path, 4096, false);
  CHECK(Look(Reserved(file, other.path, 8192, true)).st_ino == Look(first).st_ino);
  const Fd moved = Reserved(file, other.path, 4096, false);
  CHECK(Look(moved).st_ino != Look(first).st_ino);
  file.Close();
  CHECK(Look(Reserved(file, one.path, 4096, true)).st_ino != Look(first).st_ino);
}

TEST_CASE("a directory that does not do is an error, and the last file stays") {
  Folder folder;
  BackupFile file;
  const Fd first = Reserved(file, folder.path, 4096, false);
  const auto none = file.Reserve(folder.path + "/none", 4096, false);
  REQUIRE_FALSE(none.ok());
  CHECK(std::string(none.error().reason) == "NO_FILE");
  const auto too_large = file.Reserve(folder.path, Bytes(1) << 60, false);
  REQUIRE_FALSE(too_large.ok());
  CHECK(too_large.error().code == Code::kResourceExhausted);
  CHECK(Look(Reserved(file, folder.path, 4096, true)).st_ino == Look(first).st_ino);
}

TEST_CASE("memory is told from a disk") {
  BackupFile file;
  if (access("/dev/shm", W_OK) != 0) return;
  const Fd fd = Reserved(file, "/dev/shm", 4096, false);
  CHECK(file.is_in_memory());
}

TEST_CASE("a forked child lets go of every descriptor of it") {
  Folder folder;
  BackupFile file;
  const Fd first = Reserved(file, folder.path, 4096, false);
  const Fd second = Reserved(file, folder.path, 4096, true);
  const Fd other(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const pid_t child = fork();
  if (child == 0) {
    file.AbandonAfterFork();
    const bool gone = fcntl(first.get(), F_GETFD) < 0 && fcntl(second.get(), F_GETFD) < 0;
    _exit(gone && fcntl(other.get(), F_GETFD) >= 0 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(Look(first).st_nlink == 0);
}

}  // namespace
}  // namespace parkade::shim
