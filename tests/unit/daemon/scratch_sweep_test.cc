// Sweeps: what goes, what stays, and what is said of each.
#include "daemon/scratch_sweep.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/text.h"
#include "daemon/scratch.h"
#include "daemon/scratch_layout.h"
#include "daemon/status.h"
#include "tests/unit/daemon/scratch_parts.h"
#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;
using namespace parkade::testing;
namespace fs = std::filesystem;

namespace {

constexpr char kName[] = "/p1-000000000000000000000000";

std::vector<SweptDirectory> SweepOf(const TestDir& dir, Sweep sweep = {}) {
  return SweepBases({{dir.path()}, {}}, {dir.path()}, sweep);
}

// What a sweep says of one path; empty: nothing.
std::string WhyOf(const std::vector<SweptDirectory>& swept, const std::string& path) {
  const auto at = std::find_if(swept.begin(), swept.end(),
                               [&](const SweptDirectory& s) { return s.path == path; });
  return at == swept.end() ? "" : (at->dead ? "dead: " : "stays: ") + at->reason;
}

bool Has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

// Everything about a tree that a removal, a write or a new file would change.
std::string Picture(const std::string& path) {
  std::vector<std::string> lines;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    struct stat s;
    REQUIRE(lstat(entry.path().c_str(), &s) == 0);
    lines.push_back(entry.path().string() + " " + std::to_string(s.st_ino) + " " +
                    std::to_string(s.st_mode) + " " + std::to_string(s.st_size) + " " +
                    std::to_string(s.st_mtim.tv_nsec) + " " + std::to_string(s.st_ctim.tv_nsec));
  }
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const auto& line : lines) all += line + "\n";
  return all;
}

// A dead directory with data; nobody holds its lock.
std::string LeaveDead(const std::string& base, Identity owner = Dead(),
                      const FsUser& user = kSelf) {
  const auto made = MakeIn(base, std::move(owner), user);
  REQUIRE(made->Reserve(1_MiB).ok());
  return made->path();
}

}  // namespace

TEST_CASE("a sweep removes the dead, leaves everything else, and says why") {
  const TestDir dir;
  const Identity dead_owner = Dead();
  Identity earlier_boot = Self();
  earlier_boot.boot_id = "00000000-0000-0000-0000-000000000000";
  const auto live = MakeIn(dir.path(), Self());
  const auto locked = MakeIn(dir.path(), dead_owner);
  const std::string dead_path = LeaveDead(dir.path(), dead_owner);
  const std::string old_path = LeaveDead(dir.path(), earlier_boot);
  const std::string root = RootOf(dir.path());
  // What merely looks like ours, or is nothing of ours.
  fs::create_directory(root + "/checkpoint");
  std::ofstream(root + "/p2-000000000000000000000000") << "a file";
  const std::string victim = dir.Make("victim");
  std::ofstream(victim + "/data.0") << "precious";
  fs::create_directory_symlink(victim, root + "/p3-000000000000000000000000");

  const auto swept = SweepOf(dir);
  CHECK(std::count_if(swept.begin(), swept.end(), [](const auto& s) { return s.dead; }) == 2);
  CHECK(Has(WhyOf(swept, dead_path), "dead: process " + std::to_string(dead_owner.pid)));
  CHECK(WhyOf(swept, old_path) == "dead: of an earlier boot");
  CHECK(Has(WhyOf(swept, live->path()), "is alive"));
  CHECK(Has(WhyOf(swept, locked->path()), "holds its lock"));
  CHECK(Has(WhyOf(swept, root + "/p2-000000000000000000000000"), "not a directory"));
  CHECK(Has(WhyOf(swept, root + "/p3-000000000000000000000000"), "not a directory"));
  CHECK(WhyOf(swept, root + "/checkpoint").empty());
  CHECK_FALSE(fs::exists(dead_path));
  CHECK_FALSE(fs::exists(old_path));
  CHECK(fs::exists(live->path()));
  CHECK(fs::exists(locked->path()));
  CHECK(fs::exists(victim + "/data.0"));
  CHECK(Entries(root) == 5);
}

TEST_CASE("a look removes nothing and says what a sweep then does") {
  const TestDir dir;
  const std::string dead = LeaveDead(dir.path());
  const auto live = MakeIn(dir.path(), Self());
  const std::string unfinished = RootOf(dir.path()) + kName;
  fs::create_directory(unfinished);
  const std::string before = Picture(dir.path());
  const auto looked = SweepOf(dir, {Sweep::Mode::kLook});
  CHECK(Picture(dir.path()) == before);
  const auto swept = SweepOf(dir);
  REQUIRE(swept.size() == 3);
  for (const auto& entry : swept) CHECK(WhyOf(looked, entry.path) == WhyOf(swept, entry.path));
  CHECK(looked[0].bytes + looked[1].bytes + looked[2].bytes >= 1_MiB);
  CHECK(Entries(RootOf(dir.path())) == 1);
}

TEST_CASE("an owner that lives is enough: a lock that nobody holds proves nothing") {
  const TestDir dir;
  std::string path;
  { path = MakeIn(dir.path(), Self())->path(); }
  const Fd lock(open((path + "/lock").c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(flock(lock.get(), LOCK_EX | LOCK_NB) == 0);
  REQUIRE(flock(lock.get(), LOCK_UN) == 0);
  CHECK(Has(WhyOf(SweepOf(dir), path), "is alive"));
  CHECK(fs::exists(path + "/data.0"));
}

TEST_CASE("an owner that cannot be judged keeps its directory") {
  const TestDir dir;
  const std::string path = LeaveDead(dir.path());
  Sweep blind;
  blind.life = [](const wire::OwnerRecord&) { return Life::kUnknown; };
  CHECK(Has(WhyOf(SweepOf(dir, blind), path), "cannot be seen from here"));
  CHECK(fs::exists(path + "/data.0"));
}

TEST_CASE("a directory that holds anything else is left whole") {
  const TestDir dir;
  const std::string root = RootOf(dir.path());
  const auto stays = [&](const std::string& name, auto plant) {
    const std::string path = LeaveDead(dir.path());
    plant(path + "/" + name);
    INFO(name);
    CHECK(Has(WhyOf(SweepOf(dir), path), "stays: " + name));
    CHECK(fs::exists(path + "/owner"));
    CHECK(fs::exists(path + "/lock"));
  };
  const auto write = [](const std::string& at) { std::ofstream(at) << "somebody's"; };
  stays("notes", write);
  stays("data.ckpt", write);
  stays("data.0001", write);
  stays("checkpoint.safetensors", write);
  stays("data.7", [](const std::string& at) { fs::create_directory(at); });
  stays("data.1", [&](const std::string& at) { fs::create_symlink("/etc/hostname", at); });
  stays("data.2", [](const std::string& at) { REQUIRE(mkfifo(at.c_str(), 0600) == 0); });
  if (geteuid() == 0) {
    stays("data.3", [&](const std::string& at) {
      write(at);
      REQUIRE(chown(at.c_str(), 65534, 65534) == 0);
    });
  }
}

TEST_CASE("no link is followed, whichever part of a path it stands for") {
  const TestDir dir, elsewhere;
  const std::string target = LeaveDead(elsewhere.path());
  const std::string name = fs::path(target).filename();
  const auto whole = [&] {
    return fs::exists(target + "/data.0") && fs::exists(target + "/owner");
  };
  // The directory itself.
  const std::string root = RootOf(dir.path());
  fs::create_directory(root);
  fs::create_directory_symlink(target, root + "/" + name);
  CHECK(Has(WhyOf(SweepOf(dir), root + "/" + name), "not a directory"));
  CHECK(whole());
  // What it stands in.
  fs::remove_all(root);
  fs::create_directory_symlink(RootOf(elsewhere.path()), root);
  CHECK(SweepOf(dir).empty());
  CHECK(whole());
  // A base, and a part of one that its process has named.
  fs::create_directory_symlink(elsewhere.path(), dir / "base");
  const auto refused = [&](const ScratchRules& rules, const std::string& base) {
    const auto swept = SweepBases(rules, {base}, {});
    return swept.size() == 1 && Has(WhyOf(swept, base), "stays: not swept: ");
  };
  CHECK(refused({{dir / "base"}, {}}, dir / "base"));
  fs::create_directory(elsewhere / "below");
  fs::rename(RootOf(elsewhere.path()), elsewhere / "below/parkade-v1");
  CHECK(refused({{dir.path()}, {}}, dir / "base/below"));
  CHECK(refused({}, dir / "base/below"));
  CHECK(fs::exists(elsewhere / ("below/parkade-v1/" + name + "/data.0")));
  // The files of a directory.
  const TestDir third;
  const std::string dead = LeaveDead(third.path());
  fs::remove(dead + "/data.0");
  std::ofstream(third / "precious") << "precious";
  fs::create_symlink(third / "precious", dead + "/data.0");
  CHECK(Has(WhyOf(SweepOf(third), dead), "stays: data.0"));
  fs::remove(dead + "/data.0");
  fs::rename(dead + "/owner", third / "owner");
  fs::create_symlink(third / "owner", dead + "/owner");
  CHECK(Has(WhyOf(SweepOf(third), dead), "stays: owner"));
  CHECK(fs::exists(third / "precious"));
  CHECK(fs::exists(third / "owner"));
}

TEST_CASE("a record that says another user's, or nothing that can be, is no proof") {
  const TestDir dir;
  const auto with = [&](auto change) {
    const std::string path = LeaveDead(dir.path());
    wire::OwnerRecord record = OwnerOf(Dead());
    change(record);
    std::ofstream(path + "/owner", std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(&record), sizeof record);
    const std::string why = WhyOf(SweepOf(dir), path);
    CHECK(fs::exists(path + "/data.0"));
    return why;
  };
  CHECK(Has(with([](auto& r) { ++r.uid; }), "another user's"));
  CHECK(Has(with([](auto& r) { r.magic = 7; }), "owner record"));
  CHECK(Has(with([](auto& r) { r.version = 2; }), "owner record"));
  CHECK(Has(with([](auto& r) { r.pid = 0; }), "owner record"));
  CHECK(Has(with([](auto& r) { CopyText(r.boot_id, ""); }), "owner record"));
  CHECK(Has(with([](auto& r) { CopyText(r.boot_id, "yesterday"); }), "owner record"));
}

TEST_CASE("what another layout or version has made is named and left") {
  const TestDir dir;
  fs::create_directories(dir / "parkade-v2/p1");
  std::ofstream(dir / "parkade-v2/p1/data") << "x";
  std::ofstream(dir / "parkade-v3") << "a file";
  fs::create_directory(dir / "parkade-very-mine");
  const auto swept = SweepOf(dir);
  REQUIRE(swept.size() == 1);
  CHECK(Has(WhyOf(swept, dir / "parkade-v2"), "stays: of a layout"));
  CHECK(fs::exists(dir / "parkade-v2/p1/data"));
}

TEST_CASE("a removal that stopped in the middle is finished by the next sweep") {
  for (const auto& gone :
       {std::vector<std::string>{"data.0"}, {"data.0", "lock"}, {"data.0", "lock", "owner"}}) {
    const TestDir dir;
    const std::string path = LeaveDead(dir.path());
    for (const auto& file : gone) fs::remove(path + "/" + file);
    CHECK(Has(WhyOf(SweepOf(dir), path), "dead: "));
    CHECK_FALSE(fs::exists(path));
  }
}

TEST_CASE("what was never finished goes, unless somebody is making it") {
  const TestDir dir;
  const std::string root = RootOf(dir.path());
  const std::string path = root + kName;
  fs::create_directories(path);
  std::ofstream(path + "/lock") << "";
  std::ofstream(path + "/owner") << "half a rec";
  const Fd making(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(flock(making.get(), LOCK_EX | LOCK_NB) == 0);
  CHECK(WhyOf(SweepOf(dir), path) == "stays: it is being made");
  REQUIRE(flock(making.get(), LOCK_UN) == 0);
  std::ofstream(path + "/data.0") << "bytes of whom?";
  CHECK(Has(WhyOf(SweepOf(dir), path), "stays: it has data"));
  fs::remove(path + "/data.0");
  CHECK(WhyOf(SweepOf(dir), path) == "dead: it was never finished");
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a caller meets the directories of his own user alone") {
  if (geteuid() != 0) return;
  const TestDir dir;
  fs::permissions(dir.path(), fs::perms(01777));
  const std::string ours = LeaveDead(dir.path());
  const std::string theirs = LeaveDead(dir.path(), Dead(), kNobody);
  Sweep sweep;
  sweep.concerns = [](uid_t uid) { return uid == 65534; };
  const auto swept = SweepOf(dir, sweep);
  REQUIRE(swept.size() == 1);
  CHECK(swept[0].path == theirs);
  CHECK(swept[0].uid == 65534);
  CHECK_FALSE(fs::exists(theirs));
  CHECK(fs::exists(ours));
}

TEST_CASE("a base of a job's user is swept by root's daemon") {
  if (geteuid() != 0) return;
  const TestDir dir;
  fs::permissions(dir.path(), fs::perms(0755));
  const ScratchRules rules{{dir.path()}, {}};
  // The one that the daemon makes for a user, and one deeper down that he has made for himself.
  for (const std::string made : {"parkade_65534", "his", "his/jobs"}) {
    const std::string base = dir.Make(made, 0700);
    REQUIRE(chown(base.c_str(), 65534, 65534) == 0);
    if (made == "his") continue;
    const std::string dead = LeaveDead(base, Dead(), kNobody);
    const bool found = made == "parkade_65534";
    const auto bases =
        BasesToSweep(rules.dirs, found ? std::vector<std::string>{} : std::vector{base});
    CHECK(Has(WhyOf(SweepBases(rules, bases, {}), dead), "dead: "));
    CHECK_FALSE(fs::exists(dead));
  }
}

TEST_CASE("a base that cannot be swept is told of, one that is gone is not") {
  const TestDir dir;
  const ScratchRules rules{{dir.path()}, {}};
  const std::string open_to_all = dir.Make("open", 0777);
  const auto swept = SweepBases(rules, {dir / "gone", open_to_all}, {});
  REQUIRE(swept.size() == 1);
  CHECK(Has(WhyOf(swept, open_to_all), "stays: not swept: "));
  CHECK(Has(swept[0].reason, "can be changed by every user"));
  Sweep of_a_user;
  of_a_user.concerns = [](uid_t uid) { return uid == 65534; };
  CHECK(SweepBases(rules, {open_to_all}, of_a_user).empty());
}

TEST_CASE("two names of one base are swept once") {
  const TestDir dir;
  LeaveDead(dir.path());
  CHECK(
      SweepBases({{dir.path()}, {}}, {dir.path(), dir.path() + "/"}, {Sweep::Mode::kLook}).size() ==
      1);
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

TEST_CASE("bases that were used are remembered, however many they are") {
  const TestDir dir;
  const std::string state = dir.Make("state");
  const std::string base = dir.Make("last");
  std::string noted;
  for (int i = 0; noted.size() < (128 << 10); ++i) {
    noted += "/nowhere/" + std::string(180, 'x') + std::to_string(i) + "\n";
  }
  std::ofstream(state + "/scratch-bases") << noted << base << "\n";
  const auto dead = MakeIn(base, Dead());
  const std::string path = dead->path();
  REQUIRE(dead->LetGo());
  Sweep look;
  look.mode = Sweep::Mode::kLook;
  const auto swept = Scratch({}, state).SweepAll(look);
  CHECK(std::any_of(swept.begin(), swept.end(), [&](const auto& s) { return s.path == path; }));
}
