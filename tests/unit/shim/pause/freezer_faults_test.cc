// A failure at every driver call and every I/O completion of a pause and of a resume, one at a
// time: what state follows, whether the bytes are right, and whether the process can go on.
#include <cstdio>
#include <map>
#include <string>

#include "tests/unit/shim/pause/fault_ways.h"

namespace parkade::shim {
namespace {

constexpr std::string_view kRegister = "cuMemHostRegister";
const char* const kCalls[] = {
    "cuCtxPushCurrent",   "cuEventCreate",     "cuEventRecord",       "cuMemAddressReserve",
    "cuEventSynchronize", "cuMemAlloc",        "cuMemCreate",         "cuMemFree",
    "cuMemGetInfo",       "cuMemHostRegister", "cuMemHostUnregister", "cuMemMap",
    "cuMemRelease",       "cuMemSetAccess",    "cuMemUnmap",          "cuMemcpyDtoHAsync",
    "cuLaunchKernel",     "cuMemcpyHtoDAsync", "cuStreamCreate",      "cuStreamSynchronize"};

std::map<std::string, int> CallsSoFar(const ParkedProcess& p) {
  std::map<std::string, int> calls;
  for (const char* name : kCalls) calls[name] = p.fake.Calls(name);
  return calls;
}

TEST_CASE("every driver call of a pause may fail") {
  int tried = 0, refused = 0;
  for (const Way& way : kWays) {
    auto clean = Start(way);
    const auto before = CallsSoFar(*clean);
    REQUIRE(clean->Pause(way.policy, PlanOf(way)).result.ok());
    const auto after = CallsSoFar(*clean);
    clean.reset();
    for (const char* name : kCalls) {
      if (way.memory != Way::kPinned && name == kRegister) continue;  // fails for ever there
      for (int n = 1; n <= after.at(name) - before.at(name); n += Step(way)) {
        INFO(name << " number " << n << ", " << way.name);
        auto p = Start(way);
        p->fake.Fail(name, n, CUDA_ERROR_UNKNOWN);
        const auto outcome = p->Pause(way.policy, PlanOf(way));
        ++tried;
        refused += outcome.result.ok() ? 0 : 1;
        p->fake.FaultPending(name);
        CheckAfterPause(*p, outcome);
      }
    }
  }
  printf("pause: %d driver calls failed in turn, %d of them undid it\n", tried, refused);
  CHECK(refused > 50 / kEvery);
}

TEST_CASE("every driver call of a resume may fail") {
  int tried = 0, refused = 0;
  for (const Way& way : kWays) {
    auto clean = Start(way);
    REQUIRE(clean->Pause(way.policy, PlanOf(way)).result.ok());
    const auto before = CallsSoFar(*clean);
    REQUIRE(clean->Resume().result.ok());
    const auto after = CallsSoFar(*clean);
    clean.reset();
    for (const char* name : kCalls) {
      if (way.memory != Way::kPinned && name == kRegister) continue;  // fails for ever there
      for (int n = 1; n <= after.at(name) - before.at(name); n += Step(way)) {
        INFO(name << " number " << n << ", " << way.name);
        auto p = Start(way);
        REQUIRE(p->Pause(way.policy, PlanOf(way)).result.ok());
        p->fake.Fail(name, n, CUDA_ERROR_UNKNOWN);
        const auto outcome = p->Resume();
        ++tried;
        refused += outcome.result.ok() ? 0 : 1;
        p->fake.FaultPending(name);
        CheckAfterResume(*p, outcome);
      }
    }
  }
  printf("resume: %d driver calls failed in turn, %d of them left it paused\n", tried, refused);
  CHECK(refused > 50 / kEvery);
}

TEST_CASE("every write of a pause and every read of a resume may fail") {
  const Error errors[] = {OsError(EIO, "disk"), OsError(ENOSPC, "disk"),
                          MakeError(Code::kDataLoss, "BACKUP_MISSING", "file ends")};
  int tried = 0;
  for (const Way& way : kWays) {
    if (way.policy != Policy::kDisk) continue;
    auto clean = Start(way);
    const int at_start = FaultyEngine::plan.completions;
    REQUIRE(clean->Pause(Policy::kDisk, PlanOf(way)).result.ok());
    const int paused = FaultyEngine::plan.completions;
    REQUIRE(clean->Resume().result.ok());
    const int resumed = FaultyEngine::plan.completions;
    clean.reset();
    REQUIRE(paused - at_start >= 3);
    REQUIRE(resumed - paused >= paused - at_start);
    for (int n = 1; n <= resumed - at_start; n += kEvery) {
      const Error& error = errors[n % 3];
      INFO(way.name << ", completion " << n << ": " << error.reason);
      auto p = Start(way);
      FaultyEngine::plan.fail_at = FaultyEngine::plan.completions + n;
      FaultyEngine::plan.error = error;
      auto outcome = p->Pause(Policy::kDisk, PlanOf(way));
      const bool of_pause = n <= paused - at_start;
      REQUIRE(outcome.result.ok() != of_pause);
      if (!of_pause) outcome = p->Resume();
      REQUIRE_FALSE(outcome.result.ok());
      REQUIRE(std::string_view(outcome.result.error().reason) == error.reason);
      of_pause ? RequireWhole(*p) : CheckAfterResume(*p, outcome);
      ++tried;
    }
  }
  printf("disk: %d completions failed in turn\n", tried);
}

TEST_CASE("an abort at any chunk undoes the pause") {
  int tried = 0;
  for (const Way& way : kWays) {
    for (int copy = 1;; copy += Step(way)) {
      INFO("copy " << copy << ", " << way.name);
      auto p = Start(way, 1);
      CountCopies(*p, copy);
      const auto outcome = p->Pause(way.policy, PlanOf(way));
      const bool last = abort_at.copies_left > 0;
      abort_at.copies_left = 0;
      p->freezer.ClearAbort();
      if (last) {
        REQUIRE(outcome.result.ok());
        break;
      }
      ++tried;
      if (outcome.result.ok()) {
        // Asked for at the very last chunk: it was already done.
        REQUIRE(p->Resume().result.ok());
      } else {
        REQUIRE(outcome.result.error().code == Code::kCancelled);
      }
      RequireWhole(*p);
    }
  }
  printf("abort: %d chunks\n", tried);
  CHECK(tried > 10 / kEvery);
}

TEST_CASE(
    "an eviction that can be neither finished nor undone is partly moved, and resume ends it") {
  int tried = 0;
  const char* const undo_calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess",
                                    "cuMemcpyHtoDAsync"};
  for (const Way& way : kWays) {
    if (way.policy == Policy::kAuto || way.memory != Way::kPinned) continue;
    for (const char* undo : undo_calls) {
      for (int n = 1; n <= 3; ++n) {
        INFO(undo << " number " << n << ", " << way.name);
        auto p = Start(way, 1);
        p->fake.Fail("cuMemUnmap", 3, CUDA_ERROR_UNKNOWN);
        p->fake.Fail(undo, n, CUDA_ERROR_OUT_OF_MEMORY);
        const auto outcome = p->Pause(way.policy, PlanOf(way));
        REQUIRE_FALSE(outcome.result.ok());
        if (p->fake.FaultPending(undo)) continue;  // the undo has fewer such calls
        if (p->Runs()) continue;  // it came up before the undo, with the addresses to move by
        ++tried;
        REQUIRE(p->Is(ProcessState::kPartlyMoved));
        CHECK(p->Prepare().result.error().code == Code::kFailedPrecondition);
        REQUIRE(p->Resume().result.ok());
        RequireWhole(*p);
      }
    }
  }
  printf("partly moved: %d ways\n", tried);
  CHECK(tried >= 8);
}

TEST_CASE("every mapping of host memory may fail, in a pause and in a resume") {
  int tried = 0, refused = 0;
  for (const Way& way : kWays) {
    auto clean = Start(way);
    const size_t at_start = FaultyMemory::maps();
    REQUIRE(clean->Pause(way.policy, PlanOf(way)).result.ok());
    clean->pool.Release();
    const size_t paused = FaultyMemory::maps();
    REQUIRE(clean->Resume().result.ok());
    const size_t resumed = FaultyMemory::maps();
    clean.reset();
    for (size_t n = 1; n <= paused - at_start; ++n) {
      INFO("pause, mapping " << n << ", " << way.name);
      auto p = Start(way);
      FaultyMemory::FailFrom(n);
      const auto outcome = p->Pause(way.policy, PlanOf(way));
      FaultyMemory::FailFrom(0);
      ++tried;
      refused += outcome.result.ok() ? 0 : 1;
      CheckAfterPause(*p, outcome);
    }
    for (size_t n = 1; n <= resumed - paused; ++n) {
      INFO("resume, mapping " << n << ", " << way.name);
      auto p = Start(way);
      REQUIRE(p->Pause(way.policy, PlanOf(way)).result.ok());
      p->pool.Release();
      FaultyMemory::FailFrom(n);
      const auto outcome = p->Resume();
      FaultyMemory::FailFrom(0);
      ++tried;
      refused += outcome.result.ok() ? 0 : 1;
      CheckAfterResume(*p, outcome);
    }
  }
  printf("host memory: %d mappings failed in turn, %d of them ended the move\n", tried, refused);
  CHECK(tried >= 4);
}

}  // namespace
}  // namespace parkade::shim
