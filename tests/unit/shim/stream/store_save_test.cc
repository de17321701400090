// A store that is saved while it steps, and loaded by another: nothing of the steps behind is in
// the checkpoint, and training goes on bit for bit.
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "common/store/checkpoint.h"
#include "common/store/reshard.h"
#include "tests/unit/shim/stream/stream_fixture.h"

namespace parkade::shim {
namespace {

constexpr Deadline (*kSoon)(uint64_t) = Deadline::InMs;

Result<void> BeginSave(StreamProcess& p, const std::string& base, uint64_t set = 1) {
  store::Manifest manifest;
  manifest.set = set;
  return p.engine->BeginSave(base, std::move(manifest), 0, nullptr);
}

Result<void> LoadFrom(StreamProcess& p, const std::string& base, uint64_t step) {
  auto checkpoint = store::Checkpoint::Open(base, step);
  REQUIRE(checkpoint.ok());
  RequireOk(checkpoint->Verify());
  auto plan = store::Resharding::Plan(*checkpoint, p.engine->layout(), store::Conversion::kRefuse);
  REQUIRE(plan.ok());
  return p.engine->Load(step, nullptr, [&](uint32_t bucket, auto& bytes, auto& state) {
    return plan->MakeBucket(bucket, bytes, state);
  });
}

// Where a store's bytes are, and how they are kept.
struct Way {
  const char *main, *first;
  store::Redundancy redundancy = store::Redundancy::kInplace;
  Bytes host_bytes = 0;
};

void RequireSavedAndLoaded(const Way& way) {
  INFO(way.main << ", " << way.first << ", redundancy " << uint32_t(way.redundancy) << ", host "
                << way.host_bytes);
  const bool bf16 = strcmp(way.main, "lo16") == 0;
  const auto segments = TestSegments(way.main, way.first, way.first);
  const testing::TestDir base;
  Model model(bf16);
  ResidentRun resident(model, segments);
  const auto both = [&](StreamProcess& p, uint64_t step) {
    model.SetGradients(step);
    resident.Step(step);
    RequireOk(p.Step(step));
  };
  {
    StreamProcess p(bf16);
    auto options = p.Options();
    options.redundancy = way.redundancy;
    options.host_bytes = way.host_bytes;
    RequireOk(p.Open(options, segments));
    RequireOk(p.Fill());
    for (uint64_t step = 1; step <= 2; ++step) both(p, step);
    RequireOk(BeginSave(p, base.path()));
    // Steps go on beside it, and overwrite what is to be saved.
    for (uint64_t step = 3; step <= 5; ++step) RequireOk(p.Step(step));
    const auto saved = p.engine->AwaitSave(kSoon(20'000));
    INFO((saved.ok() ? "" : saved.error().what));
    REQUIRE(saved.ok());
    CHECK(saved->complete);
    // on_xfs has a file system that clones; what lies in host memory is copied everywhere.
    if (getenv("PARKADE_CLONES") != nullptr) CHECK(saved->cloned == (way.host_bytes == 0));
    RequireOk(p.engine->Drain(kSoon(20'000)));
  }

  for (const uint64_t numel : {uint64_t(1024), uint64_t(96), uint64_t(1) << 20}) {
    INFO("buckets of " << numel);
    StreamProcess other(bf16);
    for (Model::Tensor& t : other.model.tensors) {
      std::fill(t.weight.begin(), t.weight.end(), 0);
    }
    auto others = other.Options();
    others.bucket_numel = numel;
    others.host_bytes = numel == 96 ? way.host_bytes : 0;
    RequireOk(other.Open(others, segments));
    RequireOk(LoadFrom(other, base.path(), 2));
    CHECK(other.engine->committed() == 2);
    if (numel == 1024) RequireSame(other, resident);
    if (numel != uint64_t(1) << 20) continue;
    for (uint64_t step = 3; step <= 4; ++step) both(other, step);
    RequireOk(other.engine->Drain(kSoon(20'000)));
    RequireSame(other, resident);
  }
}

TEST_CASE("what is saved beside steps is the state before them, and goes on bit for bit") {
  RequireSavedAndLoaded({"fp32", "fp32"});
  RequireSavedAndLoaded({"fp32", "fp32", store::Redundancy::kRotate});
  RequireSavedAndLoaded({"fp32", "fp32", store::Redundancy::kShadow});
  RequireSavedAndLoaded({"fp32", "bf16"});
  RequireSavedAndLoaded({"lo16", "bf16"});
  RequireSavedAndLoaded({"lo16", "q8", store::Redundancy::kShadow});
  RequireSavedAndLoaded({"fp32", "q8", store::Redundancy::kInplace, 1_MiB});
  RequireSavedAndLoaded({"lo16", "bf16", store::Redundancy::kInplace, 1_MiB});
  RequireSavedAndLoaded({"lo16", "bf16", store::Redundancy::kInplace, 30'000});
}

TEST_CASE("a store that was only filled is saved with moments of zero") {
  for (const char* main : {"fp32", "lo16"}) {
    INFO(main);
    const bool bf16 = strcmp(main, "lo16") == 0;
    const auto segments = TestSegments(main, "bf16", "bf16");
    const testing::TestDir base;
    Model model(bf16);
    ResidentRun resident(model, segments);
    {
      StreamProcess p(bf16);
      RequireOk(p.Open(p.Options(), segments));
      RequireOk(p.Fill(7));
      RequireOk(BeginSave(p, base.path()));
      REQUIRE(p.engine->AwaitSave(kSoon(20'000)).ok());
    }
    StreamProcess other(bf16);
    RequireOk(other.Open(other.Options(), segments));
    RequireOk(LoadFrom(other, base.path(), 7));
    RequireSame(other, resident);
  }
}

TEST_CASE("a save that the disk refuses leaves no checkpoint, and steps go on") {
  StreamProcess p;
  const testing::TestDir base;
  RequireOk(p.Open(p.Options(), TestSegments()));
  CHECK(std::string(BeginSave(p, base.path()).error().reason) == "NOT_FILLED");
  CHECK(std::string(p.engine->AwaitSave(kSoon(0)).error().reason) == "NO_SAVE");
  RequireOk(p.Fill());
  CHECK(BeginSave(p, base.path() + "/none").error().os_errno == ENOENT);
  // A directory stands where a bucket's file is to be.
  std::filesystem::create_directories(base.path() + "/step-000000000000/rank-00000.bucket-00003/x");
  RequireOk(BeginSave(p, base.path()));
  CHECK(p.engine->AwaitSave(kSoon(20'000)).error().os_errno == EISDIR);
  RequireOk(p.Step(1));
  RequireOk(p.engine->Drain(kSoon(20'000)));
  CHECK(!std::filesystem::exists(base.path() + "/step-000000000000/COMPLETE"));
  RequireOk(BeginSave(p, base.path()));
  const auto saved = p.engine->AwaitSave(kSoon(20'000));
  REQUIRE(saved.ok());
  CHECK(saved->complete);
}

uint64_t NewestIn(const std::string& base) {
  const auto found = store::ListGenerations(base);
  REQUIRE(found.ok());
  uint64_t newest = 0;
  for (const auto& one : *found) {
    if (one.complete) newest = one.step;
  }
  return newest;
}

TEST_CASE(
    "whenever a process is killed in a save, what is complete is whole, and the last save stays") {
  const testing::TestDir base, scratch;
  uint64_t newest = 0;
  for (uint64_t round = 1; round <= 15; ++round) {
    INFO("round " << round);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      // What it leaves is removed with that directory.
      if (chdir(scratch.path().c_str()) != 0) _exit(1);
      StreamProcess p;
      const bool ready = p.Open(p.Options(), TestSegments()).ok() && p.Fill(round * 1000).ok();
      for (uint64_t step = round * 1000; ready; ++step) {
        if (!BeginSave(p, base.path(), step).ok() || !p.Step(step + 1).ok() ||
            !p.engine->AwaitSave(kSoon(20'000)).ok()) {
          break;
        }
      }
      _exit(1);
    }
    // One more is whole, and some later one is under way.
    const Deadline by = Deadline::InMs(60'000);
    const timespec look{0, 2'000'000}, wait{0, long(round * 2'300'000)};
    for (uint64_t now = NewestIn(base.path()); now <= newest; now = NewestIn(base.path())) {
      REQUIRE_FALSE(by.Passed());
      nanosleep(&look, nullptr);
    }
    nanosleep(&wait, nullptr);
    kill(child, SIGKILL);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    const uint64_t last = NewestIn(base.path());
    REQUIRE(last > newest);
    const auto found = store::ListGenerations(base.path());
    REQUIRE(found.ok());
    for (const auto& one : *found) {
      if (!one.complete || one.step <= newest) continue;
      const auto checkpoint = store::Checkpoint::Open(base.path(), one.step);
      REQUIRE(checkpoint.ok());
      RequireOk(checkpoint->Verify());
    }
    newest = last;
  }
  StreamProcess p;
  RequireOk(p.Open(p.Options(), TestSegments()));
  RequireOk(LoadFrom(p, base.path(), newest));
  RequireOk(p.Step(newest + 1));
}

TEST_CASE("a store that is closed while it is saved gives the save up") {
  const testing::TestDir base;
  {
    StreamProcess p;
    auto options = p.Options();
    options.bucket_numel = 64;
    RequireOk(p.Open(options, TestSegments()));
    RequireOk(p.Fill());
    RequireOk(BeginSave(p, base.path()));
  }
  const auto found = store::ListGenerations(base.path());
  REQUIRE(found.ok());
  for (const auto& one : *found) {
    if (one.complete) RequireOk(store::Checkpoint::Open(base.path(), one.step)->Verify());
  }
}

TEST_CASE("a load that fails midway leaves a torn store, one that is refused a whole one") {
  const auto load_half = [](StreamProcess& p) {
    const auto loaded = p.engine->Load(3, nullptr, [&](uint32_t bucket, auto& bytes, auto&) {
      if (bucket == 2) return Result<void>(MakeError(Code::kDataLoss, "DAMAGED_BLOCK", "no"));
      bytes.assign(p.engine->layout().buckets()[bucket].saved_bytes, 0);
      return Result<void>();
    });
    return std::string(loaded.ok() ? "" : loaded.error().reason);
  };
  {
    StreamProcess p;
    RequireOk(p.Open(p.Options(), TestSegments()));
    CHECK(load_half(p) == "DAMAGED_BLOCK");
    CHECK(std::string(p.Fill().error().reason) == "TORN");
    CHECK(load_half(p) == "TORN");
  }
  StreamProcess filled;
  RequireOk(filled.Open(filled.Options(), TestSegments()));
  RequireOk(filled.Fill());
  CHECK(load_half(filled) == "STEP_ORDER");
  RequireOk(filled.Step(1));
}

}  // namespace
}  // namespace parkade::shim
