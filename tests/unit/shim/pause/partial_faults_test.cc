// A failure at every driver call, copy and disk completion of a resume of some tags and of a
// further pause, one at a time: the process is as it was before, with every byte.
#include <cstdio>
#include <map>
#include <string>

#include "tests/unit/shim/pause/engine_process.h"

namespace parkade::shim {
namespace {

using wire::GateMode;

const char* const kCalls[] = {
    "cuCtxPushCurrent",   "cuEventCreate",     "cuEventRecord",      "cuMemAddressReserve",
    "cuEventSynchronize", "cuMemAlloc",        "cuMemCreate",        "cuMemFree",
    "cuMemGetInfo",       "cuMemHostRegister", "cuMemMap",           "cuMemRelease",
    "cuMemSetAccess",     "cuMemUnmap",        "cuMemcpyDtoHAsync",  "cuLaunchKernel",
    "cuMemcpyHtoDAsync",  "cuStreamCreate",    "cuStreamSynchronize"};

std::map<std::string, int> CallsSoFar(const ParkedProcess& p) {
  std::map<std::string, int> calls;
  for (const char* name : kCalls) calls[name] = p.fake.Calls(name);
  return calls;
}

constexpr Split kSplits[] = {kAllToHost, kAllToDisk, kMixed};

// All is out, the gate closed.
std::unique_ptr<ParkedProcess> StartOut(const Split& split) {
  auto p = StartEngine();
  REQUIRE(PauseEngine(*p, split).result.ok());
  return p;
}

// Weights back and changed, new memory of both kinds.
std::unique_ptr<ParkedProcess> StartGrown(const Split& split) {
  auto p = StartWithWeightsBack(split);
  p->Allocate(300'000, kCache, 0);
  p->Allocate(90'000, kWeights, 1);
  return p;
}

// What was to come in has not, nothing of it: the rest of the way is as ever.
void CheckAfterPart(ParkedProcess& p, const Freezer::Outcome& outcome) {
  if (!outcome.result.ok()) {
    REQUIRE(IsPartlyPaused(p, GateMode::kClosed));
    REQUIRE(p.fake.handle_bytes() == 0);
    REQUIRE(ResumeTags(p, {kWeights, "default"}).result.ok());
  }
  REQUIRE(IsPartlyPaused(p, GateMode::kOpen));
  REQUIRE(TagRight(p, kWeights));
  REQUIRE(TagRight(p, "default"));
  REQUIRE(p.Resume().result.ok());
  RequireWhole(p);
}

// What was in HBM is there with its bytes and in use; what was out is whole.
void CheckAfterFurther(ParkedProcess& p, const Freezer::Outcome& outcome, Bytes before) {
  if (outcome.result.ok()) {
    REQUIRE(p.Is(ProcessState::kPaused));
  } else {
    REQUIRE(IsPartlyPaused(p, GateMode::kOpen));
    REQUIRE(p.fake.handle_bytes() == before);
    REQUIRE(TagRight(p, kWeights));
    REQUIRE(ParkedProcess::Right(p.app[p.app.size() - 2]));  // the new part of the cache
  }
  REQUIRE(ResumeTags(p, {kCache}).result.ok());
  REQUIRE(TagRight(p, kCache));
  REQUIRE(p.Resume().result.ok());
  RequireWhole(p);
}

TEST_CASE("every driver call of a resume of some tags may fail, and none of them has moved then") {
  int tried = 0, refused = 0;
  for (const Split& split : kSplits) {
    auto clean = StartOut(split);
    const auto before = CallsSoFar(*clean);
    REQUIRE(ResumeTags(*clean, {kWeights, "default"}).result.ok());
    const auto after = CallsSoFar(*clean);
    clean.reset();
    for (const char* name : kCalls) {
      for (int n = 1; n <= after.at(name) - before.at(name); n += kEvery) {
        INFO(name << " number " << n);
        auto p = StartOut(split);
        p->fake.Fail(name, n, CUDA_ERROR_UNKNOWN);
        const auto outcome = ResumeTags(*p, {kWeights, "default"});
        ++tried;
        refused += outcome.result.ok() ? 0 : 1;
        p->fake.FaultPending(name);
        CheckAfterPart(*p, outcome);
      }
    }
  }
  printf("resume of tags: %d driver calls failed in turn, %d of them left all out\n", tried,
         refused);
  CHECK(refused > 30 / kEvery);
}

TEST_CASE("every driver call of a further pause may fail, and it is paused in part as before") {
  int tried = 0, refused = 0;
  for (const Split& split : kSplits) {
    auto clean = StartGrown(split);
    const Bytes held = clean->fake.handle_bytes();
    const auto before = CallsSoFar(*clean);
    REQUIRE(PauseEngine(*clean, split).result.ok());
    const auto after = CallsSoFar(*clean);
    clean.reset();
    for (const char* name : kCalls) {
      for (int n = 1; n <= after.at(name) - before.at(name); n += kEvery) {
        INFO(name << " number " << n);
        auto p = StartGrown(split);
        p->fake.Fail(name, n, CUDA_ERROR_UNKNOWN);
        const auto outcome = PauseEngine(*p, split);
        ++tried;
        refused += outcome.result.ok() ? 0 : 1;
        p->fake.FaultPending(name);
        CheckAfterFurther(*p, outcome, held);
      }
    }
  }
  printf("further pause: %d driver calls failed in turn, %d of them undid it\n", tried, refused);
  CHECK(refused > 30 / kEvery);
}

TEST_CASE("every write of a further pause and every read of a resume of tags may fail") {
  int tried = 0;
  for (const bool pauses : {true, false}) {
    const auto start = [pauses] { return pauses ? StartGrown(kAllToDisk) : StartOut(kAllToDisk); };
    const auto go = [pauses](ParkedProcess& p) {
      return pauses ? PauseEngine(p, kAllToDisk) : ResumeTags(p, {kWeights, "default"});
    };
    auto clean = start();
    const Bytes held = clean->fake.handle_bytes();
    const int at_start = FaultyEngine::plan.completions;
    REQUIRE(go(*clean).result.ok());
    const int count = FaultyEngine::plan.completions - at_start;
    clean.reset();
    REQUIRE(count >= 2);
    for (int n = 1; n <= count; n += kEvery) {
      INFO((pauses ? "write " : "read ") << n);
      auto p = start();
      FaultyEngine::plan.fail_at = FaultyEngine::plan.completions + n;
      FaultyEngine::plan.error = OsError(EIO, "disk");
      const auto outcome = go(*p);
      REQUIRE_FALSE(outcome.result.ok());
      pauses ? CheckAfterFurther(*p, outcome, held) : CheckAfterPart(*p, outcome);
      ++tried;
    }
  }
  printf("disk: %d completions failed in turn\n", tried);
}

TEST_CASE("an abort at any copy of a further pause undoes that pause alone") {
  int undone = 0;
  for (const Split& split : kSplits) {
    for (int copy = 1;; copy += kEvery) {
      INFO("copy " << copy);
      auto p = std::make_unique<ParkedProcess>();
      p->files_in_memory = p->same_files = true;
      for (const char* tag : {kCache, kWeights, "default", kWeights}) p->Allocate(200'000, tag);
      CountCopies(*p, -1);
      REQUIRE(PauseEngine(*p, split).result.ok());
      REQUIRE(ResumeTags(*p, {kWeights}).result.ok());
      Update(*p, kWeights);
      p->Allocate(300'000, kCache, 0);
      p->Allocate(90'000, kWeights, 0);
      const Bytes held = p->fake.handle_bytes();
      abort_at.copies_left = copy;
      const auto outcome = PauseEngine(*p, split);
      const bool last = abort_at.copies_left > 0;
      abort_at.copies_left = -1;
      p->freezer.ClearAbort();
      if (!outcome.result.ok()) {
        ++undone;
        REQUIRE(outcome.result.error().code == Code::kCancelled);
      }
      CheckAfterFurther(*p, outcome, held);
      if (last) break;
    }
  }
  printf("abort: %d copies of a further pause\n", undone);
  CHECK(undone > 3 / kEvery);
}

TEST_CASE("a further pause that can be neither finished nor undone ends with the next resume") {
  int tried = 0;
  for (const char* undo : {"cuMemCreate", "cuMemMap", "cuMemcpyHtoDAsync"}) {
    INFO(undo);
    auto p = StartGrown(kAllToHost);
    p->fake.Fail("cuMemUnmap", 2, CUDA_ERROR_UNKNOWN);
    p->fake.Fail(undo, 1, CUDA_ERROR_OUT_OF_MEMORY);
    const auto outcome = PauseEngine(*p, kAllToHost);
    REQUIRE_FALSE(outcome.result.ok());
    if (p->fake.FaultPending(undo)) continue;
    ++tried;
    REQUIRE(p->Is(ProcessState::kPartlyMoved));
    CHECK(p->Prepare().result.error().code == Code::kFailedPrecondition);
    // The tags that are named are whole after it, and the process can use them.
    REQUIRE(ResumeTags(*p, {kWeights, "default"}).result.ok());
    REQUIRE(IsPartlyPaused(*p, GateMode::kOpen));
    REQUIRE(TagRight(*p, kWeights));
    REQUIRE(p->Resume().result.ok());
    RequireWhole(*p);
  }
  CHECK(tried >= 2);
}

TEST_CASE("a further pause that could not be undone at once can be undone later") {
  int tried = 0;
  for (const char* undo : {"cuMemCreate", "cuMemMap", "cuMemcpyHtoDAsync"}) {
    INFO(undo);
    auto p = StartGrown(kAllToHost);
    const Bytes held = p->fake.handle_bytes();
    p->fake.Fail("cuMemUnmap", 2, CUDA_ERROR_UNKNOWN);
    p->fake.Fail(undo, 1, CUDA_ERROR_OUT_OF_MEMORY);
    REQUIRE_FALSE(PauseEngine(*p, kAllToHost).result.ok());
    if (p->fake.FaultPending(undo)) continue;
    ++tried;
    REQUIRE(p->Is(ProcessState::kPartlyMoved));
    const auto undone = p->freezer.Resume(7, 0, {.undoes_pause = true});
    REQUIRE(undone.result.ok());
    CHECK_FALSE(undone.already);
    REQUIRE(IsPartlyPaused(*p, GateMode::kOpen));
    CHECK(p->fake.handle_bytes() == held);
    REQUIRE(TagRight(*p, kWeights));
    REQUIRE(p->Resume().result.ok());
    RequireWhole(*p);
  }
  CHECK(tried >= 2);
}

}  // namespace
}  // namespace parkade::shim
