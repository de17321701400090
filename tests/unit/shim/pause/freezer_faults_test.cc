// A failure at every driver call and every I/O completion of a pause and of a resume, one at a
// time: what state follows, whether the bytes are right, and whether the process can go on.
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "shim/pause/freezer.h"
#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

using wire::Policy;
using wire::ProcessState;

const char* const kCalls[] = {"cuCtxPushCurrent",    "cuEventCreate",  "cuEventRecord",
                              "cuEventSynchronize",  "cuMemAlloc",     "cuMemCreate",
                              "cuMemFree",           "cuMemGetInfo",   "cuMemHostRegister",
                              "cuMemHostUnregister", "cuMemMap",       "cuMemRelease",
                              "cuMemSetAccess",      "cuMemUnmap",     "cuMemcpyDtoHAsync",
                              "cuMemcpyHtoDAsync",   "cuStreamCreate", "cuStreamSynchronize"};

std::map<std::string, int> CallsSoFar(const ParkedProcess& p) {
  std::map<std::string, int> calls;
  for (const char* name : kCalls) calls[name] = p.fake.Calls(name);
  return calls;
}

// Slabs of 2 MiB, one for each tag and GPU; small, because this runs hundreds of times.
std::unique_ptr<ParkedProcess> Start(int devices = 2) {
  auto p = std::make_unique<ParkedProcess>(FakeDriver::Options{.devices = devices});
  p->files_in_memory = true;
  p->Allocate(1_MiB, "a", 0);
  p->Allocate(512_KiB, "a", 0);
  p->Allocate(700'000, "b", devices - 1);
  p->Allocate(1_MiB, "c", 0);
  p->Allocate(5000, "c", devices - 1);
  return p;
}

// Several chunks for each slab, also on the way to the host under kAuto.
EvictionPlan PlanOf(Policy policy) {
  EvictionPlan plan;
  plan.chunk_bytes = 2_MiB;
  if (policy == Policy::kAuto) plan.host_bytes = 2_MiB;
  return plan;
}

// After whatever happened the process can be paused and resumed as if nothing had been.
void RequireWhole(ParkedProcess& p) {
  REQUIRE(p.Runs());
  REQUIRE(p.BytesRight());
  REQUIRE(p.pool.used() == 0);
  REQUIRE(p.Pause(Policy::kHost).result.ok());
  REQUIRE(p.fake.handle_bytes() == 0);
  REQUIRE(p.Resume().result.ok());
  REQUIRE(p.Runs());
  REQUIRE(p.BytesRight());
  REQUIRE(p.fake.mistakes() == 0);
  const FakeDriver::Held held = p.fake.held();
  REQUIRE(held.streams == 0);
  REQUIRE(held.events == 0);
}

// A pause that was hit by one fault has either worked or left the process running.
void CheckAfterPause(ParkedProcess& p, const Freezer::Outcome& outcome) {
  if (outcome.result.ok()) {
    REQUIRE(p.Is(ProcessState::kPaused));
    REQUIRE(p.Resume().result.ok());
  }
  RequireWhole(p);
}

// A resume that was hit by one fault has either worked or left the process paused, as it was.
void CheckAfterResume(ParkedProcess& p, const Freezer::Outcome& outcome) {
  if (!outcome.result.ok()) {
    REQUIRE(p.Is(ProcessState::kPaused));
    REQUIRE(p.fake.handle_bytes() == 0);
    REQUIRE(p.Resume().result.ok());
  }
  RequireWhole(p);
}

// The thread sanitizer looks for races, of which each kind of step shows its own; every single call
// is failed in the other builds.
#if defined(__SANITIZE_THREAD__)
constexpr int kEvery = 7;
#else
constexpr int kEvery = 1;
#endif

const Policy kPolicies[] = {Policy::kHost, Policy::kDisk, Policy::kAuto};

TEST_CASE("every driver call of a pause may fail") {
  int tried = 0, refused = 0;
  for (const Policy policy : kPolicies) {
    auto clean = Start();
    const auto before = CallsSoFar(*clean);
    REQUIRE(clean->Pause(policy, PlanOf(policy)).result.ok());
    const auto after = CallsSoFar(*clean);
    clean.reset();
    for (const char* name : kCalls) {
      for (int n = 1; n <= after.at(name) - before.at(name); n += kEvery) {
        INFO(name << " number " << n << ", policy " << int(policy));
        auto p = Start();
        p->fake.Fail(name, n, CUDA_ERROR_UNKNOWN);
        const auto outcome = p->Pause(policy, PlanOf(policy));
        ++tried;
        refused += outcome.result.ok() ? 0 : 1;
        p->fake.FaultPending(name);
        CheckAfterPause(*p, outcome);
      }
    }
  }
  printf("pause: %d driver calls failed in turn, %d of them undid it\n", tried, refused);
  CHECK(refused > 100 / kEvery);
}

TEST_CASE("every driver call of a resume may fail") {
  int tried = 0, refused = 0;
  for (const Policy policy : kPolicies) {
    auto clean = Start();
    REQUIRE(clean->Pause(policy, PlanOf(policy)).result.ok());
    const auto before = CallsSoFar(*clean);
    REQUIRE(clean->Resume().result.ok());
    const auto after = CallsSoFar(*clean);
    clean.reset();
    for (const char* name : kCalls) {
      for (int n = 1; n <= after.at(name) - before.at(name); n += kEvery) {
        INFO(name << " number " << n << ", policy " << int(policy));
        auto p = Start();
        REQUIRE(p->Pause(policy, PlanOf(policy)).result.ok());
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
  CHECK(refused > 100 / kEvery);
}

TEST_CASE("every write of a pause and every read of a resume may fail") {
  const Error errors[] = {OsError(EIO, "disk"), OsError(ENOSPC, "disk"),
                          MakeError(Code::kDataLoss, "BACKUP_MISSING", "file ends")};
  int tried = 0;
  auto clean = Start();
  REQUIRE(clean->Pause(Policy::kDisk, PlanOf(Policy::kDisk)).result.ok());
  const int writes = FaultyEngine::plan.completions;
  REQUIRE(clean->Resume().result.ok());
  const int reads = FaultyEngine::plan.completions - writes;
  clean.reset();
  REQUIRE(writes > 8);
  REQUIRE(reads == writes);
  for (int n = 1; n <= writes; ++n) {
    const Error& error = errors[n % 3];
    INFO("completion " << n << ": " << error.reason);
    auto p = Start();
    FaultyEngine::plan.fail_at = n;
    FaultyEngine::plan.error = error;
    const auto paused = p->Pause(Policy::kDisk, PlanOf(Policy::kDisk));
    REQUIRE_FALSE(paused.result.ok());
    REQUIRE(std::string_view(paused.result.error().reason) == error.reason);
    RequireWhole(*p);

    p.reset();  // one fake driver at a time
    p = Start();
    REQUIRE(p->Pause(Policy::kDisk, PlanOf(Policy::kDisk)).result.ok());
    FaultyEngine::plan.fail_at = FaultyEngine::plan.completions + n;
    FaultyEngine::plan.error = error;
    const auto resumed = p->Resume();
    REQUIRE_FALSE(resumed.result.ok());
    REQUIRE(std::string_view(resumed.result.error().reason) == error.reason);
    CheckAfterResume(*p, resumed);
    tried += 2;
  }
  printf("disk: %d completions failed in turn\n", tried);
}

// Set by the copy that is to be interrupted; the driver's functions carry no context.
struct AbortAt {
  Freezer* freezer = nullptr;
  int copies_left = 0;
  decltype(&cuMemcpyDtoHAsync_v2) real = nullptr;
} abort_at;

CUresult CountedCopy(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (--abort_at.copies_left == 0) abort_at.freezer->RequestAbort();
  return abort_at.real(to, from, bytes, stream);
}

TEST_CASE("an abort at any chunk undoes the pause") {
  int tried = 0;
  for (const Policy policy : kPolicies) {
    for (int copy = 1;; ++copy) {
      INFO("copy " << copy << ", policy " << int(policy));
      auto p = Start(1);
      abort_at = {&p->freezer, copy, p->driver.memcpy_dtoh_async};
      p->driver.memcpy_dtoh_async = CountedCopy;
      const auto outcome = p->Pause(policy, PlanOf(policy));
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
  CHECK(tried > 10);
}

TEST_CASE(
    "an eviction that can be neither finished nor undone is partly moved, and resume ends it") {
  int tried = 0;
  const char* const undo_calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess",
                                    "cuMemcpyHtoDAsync"};
  for (const Policy policy : {Policy::kHost, Policy::kDisk}) {
    for (const char* undo : undo_calls) {
      for (int n = 1; n <= 3; ++n) {
        INFO(undo << " number " << n << ", policy " << int(policy));
        auto p = Start(1);
        p->fake.Fail("cuMemUnmap", 3, CUDA_ERROR_UNKNOWN);
        p->fake.Fail(undo, n, CUDA_ERROR_OUT_OF_MEMORY);
        const auto outcome = p->Pause(policy, PlanOf(policy));
        REQUIRE_FALSE(outcome.result.ok());
        if (p->fake.FaultPending(undo)) continue;  // the undo has fewer such calls
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

TEST_CASE("a lost context opens the gate, so that the application hears of it") {
  ParkedProcess p;
  p.Allocate(33_MiB);
  p.Allocate(34_MiB);
  p.fake.Fail("cuEventSynchronize", 3, CUDA_ERROR_ILLEGAL_ADDRESS);  // the first range is out
  p.fake.Fail("cuMemcpyHtoDAsync", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
  const auto outcome = p.Pause(Policy::kHost);
  REQUIRE_FALSE(outcome.result.ok());
  CHECK(outcome.result.error().cuda == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(outcome.device == 0);
  CHECK(p.freezer.state() == ProcessState::kFailed);
  CHECK_FALSE(Gate::IsClosed());
  const auto refused = p.freezer.Resume(9);
  REQUIRE_FALSE(refused.result.ok());
  CHECK(std::string_view(refused.result.error().reason) == "CONTEXT_LOST");
}

TEST_CASE("memory that cannot be pinned: smaller slices, then an error and everything back") {
  auto p = Start();
  p->fake.Fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, 1);
  const auto smaller = p->Pause(Policy::kHost);
  REQUIRE(smaller.result.ok());
  REQUIRE(p->Resume().result.ok());
  p->pool.Release();
  p->fake.Fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, 1'000'000);
  const auto refused = p->Pause(Policy::kHost);
  REQUIRE_FALSE(refused.result.ok());
  CHECK(refused.result.error().code == Code::kResourceExhausted);
  p->fake.FaultPending("cuMemHostRegister");
  RequireWhole(*p);
}

TEST_CASE("auto goes to disk when the host grant cannot be pinned") {
  auto p = Start();
  // The stage is pinned before; what comes after is refused.
  REQUIRE(p->Pause(Policy::kDisk, PlanOf(Policy::kDisk)).result.ok());
  REQUIRE(p->Resume().result.ok());
  p->fake.Fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, 1'000'000);
  EvictionPlan plan = PlanOf(Policy::kAuto);
  plan.disk_bytes = 16_MiB;
  const auto paused = p->Pause(Policy::kAuto, plan);
  p->fake.FaultPending("cuMemHostRegister");
  CheckAfterPause(*p, paused);
}

TEST_CASE("a backup file that was cut short is data loss, and the process stays paused") {
  auto p = std::make_unique<ParkedProcess>();
  p->Allocate(40_MiB);
  auto prepared = p->Prepare();
  REQUIRE(prepared.result.ok());
  Fd file = TemporaryFile(40_MiB);
  const Fd other(dup(file.get()));
  EvictionPlan plan;
  plan.policy = Policy::kDisk;
  plan.disk_bytes = 40_MiB;
  plan.chunk_bytes = 16_MiB;
  plan.files = std::span(&file, 1);
  REQUIRE(p->freezer.Commit(2, plan).result.ok());
  REQUIRE(ftruncate(other.get(), 20 << 20) == 0);
  const auto resumed = p->Resume();
  REQUIRE_FALSE(resumed.result.ok());
  CHECK(resumed.result.error().code == Code::kDataLoss);
  CHECK(std::string_view(resumed.result.error().reason) == "BACKUP_MISSING");
  CHECK(p->Is(ProcessState::kPaused));
  CHECK(p->fake.handle_bytes() == 0);
}

}  // namespace
}  // namespace parkade::shim
