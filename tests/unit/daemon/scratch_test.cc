// Scratch bases and directories, on the real file system.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "daemon/file_system.h"
#include "daemon/scratch_layout.h"
#include "daemon/scratch_sweep.h"
#include "daemon/status.h"
#include "tests/unit/daemon/scratch_parts.h"
#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;
using namespace parkade::testing;
namespace fs = std::filesystem;

namespace {

int fail_next_fallocate = 0;  // with this errno

}  // namespace

// Stands before libc's for the whole test program: disks fail in ways that no disk here does.
extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  if (const int failed = std::exchange(fail_next_fallocate, 0); failed != 0) {
    // A disk that gives up half way has given half.
    if (failed != EINTR && failed != EOPNOTSUPP) {
      syscall(SYS_fallocate, fd, mode, offset, bytes / 2);
    }
    errno = failed;
    return -1;
  }
  return int(syscall(SYS_fallocate, fd, mode, offset, bytes));
}

namespace {

absl::Status Try(const ScratchRules& rules, const std::string& base,
                 BaseChoice::Source source = BaseChoice::Source::kRequest) {
  return OpenBase(rules, {base, source}, kSelf).status();
}

bool Says(const absl::Status& status, const std::string& words) {
  return MessageOf(status).find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("the base of a request comes before the process's, the configuration's and the last") {
  using Source = BaseChoice::Source;
  const ScratchRules rules{{"/a", "/b"}, {}};
  CHECK(ChooseBase(rules, "/r/", {"/w"}, 7).path == "/r");
  CHECK(ChooseBase(rules, "", {"/w"}, 7).path == "/w");
  CHECK(ChooseBase(rules, "", {"/w", true}, 7).path == "/a");
  CHECK(ChooseBase({}, "", {"/w", true}, 7).path == "/w");
  CHECK(ChooseBase(rules, "", {}, 7).path == "/a");
  const BaseChoice last = ChooseBase({}, "", {}, 7);
  CHECK(last.path == "/scratch/parkade_7");
  CHECK(last.source == Source::kLastResort);
}

TEST_CASE("a base that cannot be is refused by name") {
  for (const char* path : {"", "relative", "/a/../b", "/a/./b", "/tmp", "/tmp/x"}) {
    INFO(path);
    CHECK(ReasonOf(CheckBasePath(path)) == "BAD_SCRATCH");
  }
  CHECK(ReasonOf(CheckBasePath("/" + std::string(200, 'x'))) == "BAD_SCRATCH");
  CHECK(CheckBasePath("/tmpfoo").ok());
}

TEST_CASE("each unusable base has its own error, which names it") {
  const TestDir dir;
  const std::string good = dir.Make("good");
  std::ofstream(dir / "file") << "x";
  fs::create_directory_symlink(good, dir / "link");
  const ScratchRules rules{{dir.path()}, {}};
  CHECK(Try(rules, good).ok());
  const auto reason = [&](const std::string& base) {
    const absl::Status status = Try(rules, base);
    CHECK(MessageOf(status).find(base) != std::string::npos);
    return ReasonOf(status);
  };
  CHECK(reason(dir / "missing") == "NO_FILE");
  CHECK(reason(dir / "file") == "BAD_SCRATCH");
  CHECK(reason(dir / "link") == "BAD_SCRATCH");
  CHECK(reason(dir / "link/below") == "BAD_SCRATCH");
  CHECK(reason("/usr") == "BAD_SCRATCH");
  CHECK(reason(dir.path() + "x") == "BAD_SCRATCH");
}

TEST_CASE("a base that the process's user cannot write to is refused") {
  if (geteuid() != 0) return;
  const TestDir dir;
  fs::permissions(dir.path(), fs::perms(0755));
  const std::string base = dir.Make("base");
  const auto opened = OpenBase({{base}, {}}, {base, BaseChoice::Source::kRequest}, kNobody);
  REQUIRE(opened.status().code() == absl::StatusCode::kPermissionDenied);
  CHECK(ReasonOf(opened.status()) == "NO_ACCESS");
  CHECK(faccessat(AT_FDCWD, base.c_str(), W_OK, AT_EACCESS) == 0);  // we are ourselves again
}

TEST_CASE("tmpfs is refused unless it is allowed by name") {
  char pattern[] = "/dev/shm/parkade-test-XXXXXX";
  const std::string shm = mkdtemp(pattern);
  CHECK(ReasonOf(Try({{shm}, {}}, shm)) == "BAD_SCRATCH");
  CHECK(MessageOf(Try({{shm}, {}}, shm)).find("tmpfs") != std::string::npos);
  CHECK(Try({{shm}, {shm}}, shm).ok());
  fs::remove_all(shm);
}

TEST_CASE("a user's own leaf is made where it is missing, nothing else is") {
  const TestDir dir;
  const std::string leaf = dir / ("parkade_" + std::to_string(geteuid()));
  CHECK(Try({{dir.path()}, {}}, leaf, BaseChoice::Source::kProcess).ok());
  struct stat s;
  REQUIRE(stat(leaf.c_str(), &s) == 0);
  CHECK((s.st_mode & 0777) == 0700);
  CHECK(ReasonOf(Try({{dir.path()}, {}}, dir / "other")) == "NO_FILE");
}

TEST_CASE("without any base the refusal says what to set") {
  if (fs::exists("/scratch")) return;
  const BaseChoice last = ChooseBase({}, "", {}, geteuid());
  const absl::Status status = OpenBase({}, last, kSelf).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(ReasonOf(status) == "NO_SCRATCH");
  CHECK(MessageOf(status).find("PARKADE_SCRATCH_DIR") != std::string::npos);
}

TEST_CASE("a directory is private, locked, and knows its owner") {
  const TestDir dir;
  const auto made = MakeIn(dir.path(), Self());
  struct stat s;
  REQUIRE(stat(made->path().c_str(), &s) == 0);
  CHECK((s.st_mode & 0777) == 0700);
  const Fd lock(open((made->path() + "/lock").c_str(), O_RDWR | O_CLOEXEC));
  CHECK(flock(lock.get(), LOCK_EX | LOCK_NB) != 0);
  const Fd root(open(RootOf(dir.path()).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto found = LookInto(root.get(), fs::path(made->path()).filename());
  REQUIRE(found.ok());
  REQUIRE(found->owner.has_value());
  CHECK(IsOwner(*found->owner, Self()));
  REQUIRE(made->Remove().ok());
  CHECK(Entries(RootOf(dir.path())) == 0);
}

TEST_CASE("a directory for another user belongs to that user") {
  if (geteuid() != 0) return;
  const TestDir dir;
  fs::permissions(dir.path(), fs::perms(0755));
  const std::string base = dir.Make("shared", 01777);
  const auto made = MakeIn(base, Self(), kNobody);
  struct stat s, root;
  REQUIRE(stat(made->path().c_str(), &s) == 0);
  REQUIRE(stat(RootOf(base).c_str(), &root) == 0);
  CHECK(s.st_uid == 65534);
  CHECK(root.st_uid == 0);
  CHECK((root.st_mode & 07777) == 01777);
  REQUIRE(made->Reserve(1_MiB).ok());
  REQUIRE(made->Remove().ok());
}

TEST_CASE("space is reserved before it is needed, and never taken back") {
  const TestDir dir;
  const auto made = MakeIn(dir.path(), Self());
  REQUIRE(made->Reserve(3_MiB + 1).ok());
  CHECK(made->bytes() == 3_MiB + 4096);
  struct stat s;
  REQUIRE(fstat(made->data(), &s) == 0);
  CHECK(s.st_size == 3_MiB + 4096);
  CHECK(s.st_blocks * 512 >= s.st_size);
  REQUIRE(made->Reserve(1_MiB).ok());
  CHECK(made->bytes() == 3_MiB + 4096);
}

TEST_CASE("a reservation that the disk cannot hold fails and leaves the file as it was") {
  const TestDir dir;
  const auto made = MakeIn(dir.path(), Self());
  REQUIRE(made->Reserve(1_MiB).ok());
  const absl::Status status = made->Reserve(Bytes(1) << 43);
  CHECK(ReasonOf(status) == "DISK_SPACE");
  CHECK(status.message().find(" are free") != std::string::npos);  // known without filling the disk
  struct stat s;
  REQUIRE(fstat(made->data(), &s) == 0);
  CHECK(s.st_size == off_t(1_MiB));
  CHECK(made->bytes() == 1_MiB);
}

TEST_CASE("however a disk refuses, the file is as before and the reason is the disk's") {
  const TestDir dir;
  const auto made = MakeIn(dir.path(), Self());
  REQUIRE(made->Reserve(1_MiB).ok());
  const std::pair<int, const char*> ways[] = {{ENOSPC, "DISK_SPACE"},
                                              {EDQUOT, "DISK_QUOTA"},
                                              {EFBIG, "FILE_SIZE_LIMIT"},
                                              {EROFS, "READ_ONLY"},
                                              {EIO, "OS_ERROR"}};
  for (const auto& [failed, reason] : ways) {
    fail_next_fallocate = failed;
    const absl::Status status = made->Reserve(4_MiB);
    INFO(status);
    CHECK(ReasonOf(status) == reason);
    CHECK(Says(status, made->path()));
    CHECK(Says(status, strerror(failed)));
    CHECK(MetadataOf(status)["path"] == made->path());
    struct stat s;
    REQUIRE(fstat(made->data(), &s) == 0);
    CHECK(s.st_size == off_t(1_MiB));
    CHECK(Bytes(s.st_blocks) * 512 <= 1_MiB + 64_KiB);
    CHECK(made->bytes() == 1_MiB);
  }
  for (const int passing : {EINTR, EOPNOTSUPP}) {
    fail_next_fallocate = passing;
    CHECK(made->Reserve(made->bytes() + 1_MiB).ok());
  }
  CHECK(made->bytes() == 3_MiB);
}

TEST_CASE("a reservation beyond the daemon's own file size limit fails without a signal") {
  const TestDir dir;
  const auto made = MakeIn(dir.path(), Self());
  REQUIRE(made->Reserve(1_MiB).ok());
  rlimit was;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &was) == 0);
  const rlimit low{2_MiB, was.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &low) == 0);
  const auto old = signal(SIGXFSZ, SIG_IGN);  // as parkaded does
  const absl::Status status = made->Reserve(8_MiB);
  signal(SIGXFSZ, old);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &was) == 0);
  CHECK(ReasonOf(status) == "FILE_SIZE_LIMIT");
  CHECK(made->bytes() == 1_MiB);
  CHECK(made->Reserve(8_MiB).ok());
}

TEST_CASE("without a descriptor left a directory is refused and nothing stays behind") {
  const TestDir dir;
  const Fd base = BaseOf(dir.path());
  MakeIn(dir.path(), Self())->Remove().IgnoreError();
  rlimit was;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &was) == 0);
  // Room for the first of the descriptors that it takes, then for the first two, and so on.
  const Fd next(dup(base.get()));
  int refused = 0;
  for (rlim_t room = 0; room < 6; ++room) {
    const rlimit low{rlim_t(next.get()) + 1 + room, was.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
    auto made = ScratchDirectory::Create(base.get(), dir.path(), Self(), kSelf);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &was) == 0);
    if (made.ok()) {
      CHECK((*made)->Remove().ok());
      continue;
    }
    ++refused;
    INFO(made.status());
    CHECK(ReasonOf(made.status()) == "OPEN_FILES");
    if (Entries(RootOf(dir.path())) == 0) continue;
    // Removing it took a descriptor as well: the next sweep does it.
    CHECK(SweepBases({{dir.path()}, {}}, {dir.path()}, {}).at(0).dead);
    CHECK(Entries(RootOf(dir.path())) == 0);
  }
  CHECK(refused >= 4);
}

TEST_CASE("a claimed directory is taken only with its own lock by its own process") {
  const TestDir dir;
  auto made = MakeIn(dir.path(), Self());
  REQUIRE(made->Reserve(1_MiB).ok());
  const std::string path = made->path();
  const Fd base = BaseOf(dir.path());
  Fd lock(dup(made->lock()));
  made.reset();  // the first daemon is gone, the process still holds the lock
  const auto check = [&](Fd with, const Identity& owner) {
    auto claimed = ScratchDirectory::Claimed(path, std::move(with), owner, kSelf);
    REQUIRE(claimed.ok());
    return ReasonOf((*claimed)->Check(base.get()));
  };

  CHECK(check(Fd(open("/dev/null", O_RDWR)), Self()) == "BAD_SCRATCH");
  Identity other = Self();
  ++other.start_ticks;
  CHECK(check(Fd(dup(lock.get())), other) == "BAD_SCRATCH");
  CHECK(check(Fd(), Self()).empty());
  for (const char* no_scratch : {"/etc/passwd", "/x/parkade-v1/p1", "", "/"}) {
    CHECK_FALSE(ScratchDirectory::Claimed(no_scratch, Fd(), Self(), kSelf).ok());
  }

  auto claimed = ScratchDirectory::Claimed(path, std::move(lock), Self(), kSelf);
  REQUIRE(claimed.ok());
  CHECK((*claimed)->base() == dir.path());
  CHECK((*claimed)->data() == -1);
  REQUIRE((*claimed)->Check(base.get()).ok());
  CHECK((*claimed)->bytes() == 1_MiB);
  CHECK((*claimed)->data() >= 0);
  CHECK((*claimed)->Remove().ok());
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a false claim removes nothing when its process ends") {
  const TestDir dir;
  const auto somebodys = MakeIn(dir.path(), Self());
  Identity liar = Self();
  ++liar.start_ticks;
  auto claimed = ScratchDirectory::Claimed(somebodys->path(), Fd(), liar, kSelf);
  REQUIRE(claimed.ok());
  CHECK(ReasonOf((*claimed)->Remove()) == "BAD_SCRATCH");
  CHECK(fs::exists(somebodys->path() + "/data.0"));
}

TEST_CASE("a directory that was deleted, emptied or replaced under its process is noticed") {
  const TestDir dir;
  const Fd base = BaseOf(dir.path());
  const auto check = [&](auto harm) {
    const auto made = MakeIn(dir.path(), Self());
    REQUIRE(made->Check(base.get()).ok());
    harm(made->path());
    const absl::Status status = made->Check(base.get());
    // Whatever stands there now is not ours to remove.
    const bool had = fs::exists(made->path() + "/keep");
    made->Remove().IgnoreError();
    CHECK(fs::exists(made->path() + "/keep") == had);
    return status.code();
  };
  using Code = absl::StatusCode;
  CHECK(check([](const std::string& path) { fs::remove_all(path); }) == Code::kNotFound);
  CHECK(check([](const std::string& path) { fs::remove(path + "/data.0"); }) ==
        Code::kPermissionDenied);
  CHECK(check([](const std::string& path) {
          fs::rename(path, path + ".moved");
          fs::create_directory(path);
          fs::copy(path + ".moved", path);
          std::ofstream(path + "/keep") << "x";
        }) == Code::kPermissionDenied);
  CHECK(check([&](const std::string&) { fs::remove_all(RootOf(dir.path())); }) == Code::kNotFound);
}

TEST_CASE("each part of a base that another user could change is refused") {
  const TestDir dir;
  fs::permissions(dir.path(), fs::perms(0755));
  const std::string open_to_all = dir.Make("open", 0777);
  fs::create_directory(open_to_all + "/base");
  CHECK(Says(Try({{open_to_all}, {}}, open_to_all), "every user"));
  CHECK(Says(Try({{open_to_all + "/base"}, {}}, open_to_all + "/base"), open_to_all + " can be"));
  CHECK(Says(Try({{dir.path()}, {}}, open_to_all + "/base"), "every user"));
  fs::permissions(open_to_all, fs::perms(01777));
  CHECK(Try({{open_to_all + "/base"}, {}}, open_to_all + "/base").ok());

  const std::string real = dir.Make("real");
  fs::create_directory(real + "/base");
  fs::create_directory_symlink(real, dir / "link");
  // Above the directory that the configuration names a link of the administrator's is followed.
  CHECK(Try({{dir / "link/base"}, {}}, dir / "link/base").ok());
  CHECK(ReasonOf(Try({{dir / "link"}, {}}, dir / "link")) == "BAD_SCRATCH");
  if (geteuid() != 0) return;
  REQUIRE(lchown((dir / "link").c_str(), 65534, 65534) == 0);
  CHECK(Says(Try({{dir / "link/base"}, {}}, dir / "link/base"), "belongs to user 65534"));
  REQUIRE(chown(real.c_str(), 65534, 65534) == 0);
  CHECK(Says(Try({{dir.path()}, {}}, real + "/base"), "directory of user 65534"));
}

TEST_CASE("an overlay's upper directory is read as the kernel writes it") {
  const std::string mounts =
      "24 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
      "31 24 0:40 / /merged rw shared:9 - overlay overlay "
      "rw,lowerdir=/l:/m,upperdir=/up,workdir=/w\n"
      "32 24 0:41 / /odd rw - overlay none rw,upperdir=/a\\040b\\134,c,workdir=/w\n"
      "33 24 0:42 / /ro ro - overlay overlay ro,lowerdir=/l:/m\n"
      "34 24 0:43 / /cut rw - overlay";
  CHECK(UpperDirectory(ParseMounts(mounts), 31) == "/up");
  CHECK(UpperDirectory(ParseMounts(mounts), 32) == "/a b,c");
  for (const uint64_t id : {24, 33, 34, 99}) CHECK_FALSE(UpperDirectory(ParseMounts(mounts), id));
}
