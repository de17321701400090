// Backups over several directories: their shares, their end, and that the next daemon finds them.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "daemon/scratch.h"
#include "daemon/status.h"
#include "tests/unit/daemon/scratch_parts.h"
#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;
using namespace parkade::testing;
namespace fs = std::filesystem;

namespace {

// Three bases, of which two share each backup.
struct Bases {
  Bases() {
    for (const char* name : {"a", "b", "c", "state"}) fs::create_directory(At(name));
  }
  std::string At(const std::string& name) const { return dir.path() + "/" + name; }
  ScratchRules Rules() const { return {{At("c"), At("a"), At("b")}, {}, {At("a"), At("b")}}; }
  // Directories of processes in one of them.
  size_t In(const std::string& name) const {
    const fs::path root = RootOf(At(name));
    return fs::exists(root) ? size_t(std::distance(fs::directory_iterator(root), {})) : 0;
  }
  TestDir dir;
};

std::shared_ptr<Process> Running() { return std::make_shared<Process>(Self(), Fd()); }

off_t SizeOf(int fd) {
  struct stat s;
  REQUIRE(fstat(fd, &s) == 0);
  return s.st_size;
}

TEST_CASE("a backup is shared out over the bases that are to share it, in equal parts at first") {
  const Bases bases;
  Scratch scratch(bases.Rules(), bases.At("state"));
  const auto process = Running();
  Scratch::Use use;
  REQUIRE(scratch.Reserve(process, "", 6_MiB, use).ok());
  const auto directory = use.directory();
  const auto files = directory->AllData();
  REQUIRE(files.size() == 2);
  for (const int file : files) {
    CHECK(SizeOf(file) >= off_t(3_MiB));
    CHECK(SizeOf(file) <= off_t(3_MiB + 8192));
  }
  CHECK(directory->AllBytes() >= 6_MiB);
  REQUIRE(scratch.Reserve(process, "", 8_MiB, use).ok());  // more turned out to be needed
  CHECK(directory->AllBytes() >= 8_MiB);
  CHECK((bases.In("a") == 1 && bases.In("b") == 1 && bases.In("c") == 0));
  use.Keep();

  Scratch::Use again;
  REQUIRE(scratch.Reserve(process, "", 8_MiB, again).ok());
  CHECK(again.directory() == directory);
  again.GiveBack();
  CHECK((bases.In("a") == 1 && bases.In("b") == 1));  // it was there before
  REQUIRE(directory->Remove().ok());
  CHECK((bases.In("a") == 0 && bases.In("b") == 0));
}

TEST_CASE("the shares are the disks' rates") {
  const Bases bases;
  auto made = MakeIn(bases.At("a"), Self());
  made->Join(MakeIn(bases.At("b"), Self()));
  const double weights[] = {3, 1};
  REQUIRE(made->ReserveAll(64_MiB, weights).ok());
  CHECK(made->bytes() / 1_MiB == 48);
  CHECK(made->stripes()[0]->bytes() / 1_MiB == 16);
  // What does not fit into one of them leaves all as they were.
  const Bytes before = made->AllBytes();
  const double most_to_the_second[] = {1, 1 << 24};
  CHECK(ReasonOf(made->ReserveAll(Bytes(1) << 43, most_to_the_second)) == "DISK_SPACE");
  CHECK(made->AllBytes() == before);
  CHECK(SizeOf(made->data()) == off_t(made->bytes()));
}

TEST_CASE("who names a base gets that one alone, and a stripe that fails leaves nothing") {
  const Bases bases;
  Scratch scratch(bases.Rules(), bases.At("state"));
  const auto process = Running();
  {
    Scratch::Use use;
    REQUIRE(scratch.Reserve(process, bases.At("c"), 1_MiB, use).ok());
    CHECK(use.directory()->AllData().size() == 1);
    use.GiveBack();
    CHECK(bases.In("c") == 0);
  }
  fs::remove(bases.At("b"));
  Scratch::Use use;
  const absl::Status refused = scratch.Reserve(process, "", 1_MiB, use);
  CHECK(ReasonOf(refused) == "NO_FILE");
  CHECK(MetadataOf(refused)["path"] == bases.At("b"));
  CHECK(bases.In("a") == 0);
  CHECK(process->scratch() == nullptr);
}

TEST_CASE("the next daemon finds the stripes of a directory that its process holds") {
  const Bases bases;
  std::string path;
  const auto process = Running();
  {
    Scratch first(bases.Rules(), bases.At("state"));
    Scratch::Use use;
    REQUIRE(first.Reserve(process, "", 4_MiB, use).ok());
    path = use.directory()->path();
    use.Keep();
    REQUIRE(process->SetScratch(nullptr));  // that daemon has died
  }
  Identity stranger = Self();
  ++stranger.start_ticks;
  const auto others = MakeIn(bases.At("b"), stranger);
  Scratch next(bases.Rules(), bases.At("state"));
  next.Adopt(*process, path, Fd());
  Scratch::Use use;
  REQUIRE(next.Reserve(process, "", 4_MiB, use).ok());
  CHECK(use.directory()->path() == path);
  CHECK(use.directory()->stripes().size() == 1);
  use.Keep();

  // Configured in another way it is made anew, and nothing of the old one stays.
  ScratchRules plain = bases.Rules();
  plain.stripe.clear();
  Scratch other(plain, bases.At("state"));
  const auto held = process->scratch();
  REQUIRE(other.Reserve(process, bases.At("a"), 4_MiB, use).ok());
  CHECK(use.directory()->stripes().empty());
  use.Keep();
  CHECK((bases.In("a") == 1 && bases.In("b") == 1));
  CHECK(fs::exists(others->path()));
}

TEST_CASE("what is out keeps its directory with the stripes it has, whatever is asked for since") {
  const Bases bases;
  for (const bool striped : {true, false}) {
    INFO("striped first: " << striped);
    Scratch scratch(bases.Rules(), bases.At("state"));
    const auto process = Running();
    const std::string first = striped ? "" : bases.At("a"), then = striped ? bases.At("a") : "";
    Scratch::Use use;
    REQUIRE(scratch.Reserve(process, first, 4_MiB, use).ok());
    const auto directory = use.directory();
    use.Keep();
    REQUIRE(scratch.Foretell(*process, then, 6_MiB, 4_MiB).ok());
    REQUIRE(scratch.Reserve(process, then, 6_MiB, use, 4_MiB).ok());
    CHECK(use.directory() == directory);
    CHECK(directory->stripes().size() == (striped ? 1 : 0));
    CHECK(directory->AllBytes() >= 6_MiB);
    REQUIRE(scratch.Reserve(process, then, 8_MiB, use, 4_MiB).ok());
    CHECK(directory->AllBytes() >= 8_MiB);
    use.GiveBack();
    CHECK(process->scratch() == directory);
    CHECK((bases.In("a") == 1 && bases.In("b") == (striped ? 1 : 0)));
    // Nothing is out any more: it is made anew, as is asked for now.
    REQUIRE(scratch.Reserve(process, then, 4_MiB, use).ok());
    CHECK(use.directory() != directory);
    use.Keep();
    CHECK((bases.In("a") == 1 && bases.In("b") == (striped ? 0 : 1)));
    REQUIRE(process->scratch()->Remove().ok());
  }
}

TEST_CASE("nothing is made beside what is out where its files are not all there") {
  const Bases bases;
  Scratch scratch(bases.Rules(), bases.At("state"));
  const auto process = Running();
  Scratch::Use use;
  REQUIRE(scratch.Reserve(process, "", 4_MiB, use).ok());
  const auto directory = use.directory();
  use.Keep();
  ScratchRules plain = bases.Rules();
  plain.stripe.clear();
  {
    // The next daemon, which is not told of the stripes.
    REQUIRE(process->SetScratch(nullptr));
    Scratch next(plain, bases.At("state"));
    next.Adopt(*process, directory->path(), Fd());
    const absl::Status refused = next.Reserve(process, "", 6_MiB, use, 4_MiB);
    CHECK(ReasonOf(refused) == "SCRATCH_IN_USE");
    CHECK(MetadataOf(refused)["path"] == bases.At("a"));
    CHECK(process->scratch()->path() == directory->path());
  }
  REQUIRE(process->SetScratch(directory));
  fs::remove_all(fs::path(directory->stripes()[0]->path()));
  CHECK(ReasonOf(scratch.Reserve(process, "", 6_MiB, use, 4_MiB)) == "SCRATCH_IN_USE");
  CHECK(process->scratch() == directory);
  CHECK(use.directory() == nullptr);
  CHECK((bases.In("a") == 1 && bases.In("b") == 0 && bases.In("c") == 0));
  REQUIRE(process->SetScratch(nullptr));
  CHECK(ReasonOf(scratch.Reserve(process, "", 6_MiB, use, 4_MiB)) == "SCRATCH_IN_USE");
  CHECK((bases.In("a") == 1 && bases.In("b") == 0 && bases.In("c") == 0));
}

TEST_CASE("a base is tried once, in the background, and what is found is what pauses use") {
  const Bases bases;
  Scratch scratch(bases.Rules(), bases.At("state"));
  std::vector<std::function<void()>> later;
  scratch.BeginTrials([&](auto work) { later.push_back(std::move(work)); });
  REQUIRE(later.size() == 3);  // those that are configured
  CHECK(scratch.RatesOf(bases.At("a")).write_gbps == 0);
  const uint64_t begin_ns = MonotonicNs();
  for (const auto& work : later) work();
  CHECK(MonotonicNs() - begin_ns < 20'000'000'000);
  const DiskRates rates = scratch.RatesOf(bases.At("a"));
  CHECK((rates.write_gbps > 0 || !rates.direct));
  // One disk, one trial.
  CHECK(scratch.RatesOf(bases.At("b")).write_gbps == rates.write_gbps);
  for (const char* name : {"a", "b", "c"}) CHECK(fs::is_empty(bases.At(name)));

  const size_t tried = later.size();
  Scratch::Use use;
  REQUIRE(scratch.Reserve(Running(), bases.At("c"), 1_MiB, use).ok());
  CHECK(use.setting().block == rates.setting.block);
  CHECK(use.setting().depth == rates.setting.depth);
  use.Keep();
  CHECK(later.size() == tried);
  // One beneath a configured base is new, and tried when the pause that named it is over.
  fs::create_directory(bases.At("c/job"));
  REQUIRE(scratch.Reserve(Running(), bases.At("c/job"), 1_MiB, use).ok());
  CHECK(later.size() == tried);
  use.Keep();
  CHECK(later.size() == tried + 1);
}

}  // namespace
