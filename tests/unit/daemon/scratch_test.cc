// Scratch bases, directories and sweeps, on the real file system.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/text.h"
#include "daemon/scratch_base.h"
#include "daemon/scratch_directory.h"
#include "daemon/scratch_sweep.h"
#include "daemon/status.h"
#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;
using parkade::testing::Entries;
using parkade::testing::TestDir;
namespace fs = std::filesystem;

namespace {

const FsUser kSelf{geteuid(), getegid(), {}};

Identity Self() {
  Identity id{*PidNamespace(getpid()),
              getpid(),
              *StartTicks(getpid()),
              BootId(),
              getpid(),
              geteuid(),
              getegid(),
              true};
  return id;
}

// The identity of a process that has ended.
Identity Dead() {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  Identity id = Self();
  id.pid = id.own_pid = child;
  id.start_ticks = *StartTicks(child);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return id;
}

absl::Status Try(const ScratchRules& rules, const std::string& base,
                 BaseChoice::Source source = BaseChoice::Source::kRequest) {
  return OpenBase(rules, {base, source}, kSelf).status();
}

std::unique_ptr<ScratchDirectory> MakeIn(const std::string& base, const Identity& owner) {
  auto fd = OpenBase({{base}, {}}, {base, BaseChoice::Source::kConfig}, kSelf);
  REQUIRE(fd.ok());
  auto made = ScratchDirectory::Create(fd->get(), base, owner, kSelf);
  REQUIRE(made.ok());
  return std::move(*made);
}

std::string RootOf(const std::string& base) { return base + "/" + wire::kScratchRoot; }

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
  const FsUser nobody{65534, 65534, {}};
  const auto opened = OpenBase({{base}, {}}, {base, BaseChoice::Source::kRequest}, nobody);
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
  const auto owned = OpenOwned(root.get(), fs::path(made->path()).filename());
  REQUIRE(owned.ok());
  CHECK(IsOwner(owned->owner, Self()));
  REQUIRE(made->Remove().ok());
  CHECK(Entries(RootOf(dir.path())) == 0);
}

TEST_CASE("a directory for another user belongs to that user") {
  if (geteuid() != 0) return;
  const TestDir dir;
  fs::permissions(dir.path(), fs::perms(0755));
  const std::string base = dir.Make("shared", 01777);
  const FsUser nobody{65534, 65534, {}};
  Identity owner = Self();
  owner.uid = 65534;
  auto fd = OpenBase({{base}, {}}, {base, BaseChoice::Source::kConfig}, nobody);
  REQUIRE(fd.ok());
  auto made = ScratchDirectory::Create(fd->get(), base, owner, nobody);
  REQUIRE(made.ok());
  struct stat s, root;
  REQUIRE(stat((*made)->path().c_str(), &s) == 0);
  REQUIRE(stat(RootOf(base).c_str(), &root) == 0);
  CHECK(s.st_uid == 65534);
  CHECK(root.st_uid == 0);
  CHECK((root.st_mode & 07777) == 01777);
  REQUIRE((*made)->Reserve(1_MiB).ok());
  REQUIRE((*made)->Remove().ok());
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

TEST_CASE("a directory is adopted only with its own lock by its own process") {
  const TestDir dir;
  auto made = MakeIn(dir.path(), Self());
  REQUIRE(made->Reserve(1_MiB).ok());
  const std::string path = made->path();
  Fd lock(dup(made->lock()));
  made.reset();  // the first daemon is gone, the process still holds the lock

  const auto other_lock =
      ScratchDirectory::Adopt(path, Fd(open("/dev/null", O_RDWR)), Self(), kSelf);
  CHECK(ReasonOf(other_lock.status()) == "BAD_SCRATCH");
  Identity other = Self();
  ++other.start_ticks;
  CHECK(ReasonOf(ScratchDirectory::Adopt(path, Fd(dup(lock.get())), other, kSelf).status()) ==
        "BAD_SCRATCH");
  const auto unlocked = ScratchDirectory::Adopt(path, Fd(), Self(), kSelf);
  REQUIRE(unlocked.ok());
  CHECK((*unlocked)->lock() == -1);
  CHECK_FALSE(ScratchDirectory::Adopt("/etc/passwd", Fd(dup(lock.get())), Self(), kSelf).ok());
  auto adopted = ScratchDirectory::Adopt(path, std::move(lock), Self(), kSelf);
  REQUIRE(adopted.ok());
  CHECK((*adopted)->bytes() == 1_MiB);
  CHECK((*adopted)->base() == dir.path());
}

TEST_CASE("a sweep removes the dead and leaves everything else") {
  const TestDir dir;
  const Identity dead_owner = Dead();
  Identity earlier_boot = Self();
  earlier_boot.boot_id = "00000000-0000-0000-0000-000000000000";
  std::string dead_path, old_path, locked_path;
  const auto live = MakeIn(dir.path(), Self());
  const auto locked = MakeIn(dir.path(), dead_owner);  // somebody still holds its lock
  {
    const auto dead = MakeIn(dir.path(), dead_owner);
    REQUIRE(dead->Reserve(1_MiB).ok());
    dead_path = dead->path();
    old_path = MakeIn(dir.path(), earlier_boot)->path();
  }
  const std::string root = RootOf(dir.path());
  // What merely looks like ours, or is nothing of ours.
  fs::create_directory(root + "/p1-000000000000000000000000");
  fs::create_directory(root + "/checkpoint");
  std::ofstream(root + "/p2-000000000000000000000000") << "a file";
  const std::string victim = dir.Make("victim");
  std::ofstream(victim + "/data.0") << "precious";
  fs::create_directory_symlink(victim, root + "/p3-000000000000000000000000");

  CHECK(SweepBase(dir.path(), LifeOf) == 2);
  CHECK_FALSE(fs::exists(dead_path));
  CHECK_FALSE(fs::exists(old_path));
  CHECK(fs::exists(live->path()));
  CHECK(fs::exists(locked->path()));
  CHECK(fs::exists(victim + "/data.0"));
  CHECK(Entries(root) == 6);
}

TEST_CASE("a removal leaves files that it does not know") {
  const TestDir dir;
  std::string path;
  {
    const auto dead = MakeIn(dir.path(), Dead());
    path = dead->path();
  }
  std::ofstream(path + "/notes") << "somebody's";
  CHECK(SweepBase(dir.path(), LifeOf) == 0);
  CHECK(fs::exists(path + "/notes"));
}

TEST_CASE("a removal that stopped in the middle is finished by the next sweep") {
  const TestDir dir;
  std::string path;
  {
    const auto dead = MakeIn(dir.path(), Dead());
    path = dead->path();
  }
  fs::remove(path + "/data.0");
  fs::remove(path + "/lock");
  CHECK(SweepBase(dir.path(), LifeOf) == 1);
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("an owner in a pid namespace that cannot be seen is not taken for dead") {
  wire::OwnerRecord owner = OwnerOf(Self());
  CHECK(LifeOf(owner) == Life::kAlive);
  ++owner.start_ticks;
  CHECK(LifeOf(owner) == Life::kDead);
  CopyText(owner.boot_id, "another boot");
  CHECK(LifeOf(owner) == Life::kDead);
  owner = OwnerOf(Self());
  owner.pid_namespace = 1;
  CHECK(LifeOf(owner) != Life::kAlive);
}
