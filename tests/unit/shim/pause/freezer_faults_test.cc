// A failure at every driver call and every I/O completion of a pause and of a resume, one at a
// time: what state follows, whether the bytes are right, and whether the process can go on.
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "shim/pause/freezer.h"
#include "tests/unit/emulated.h"
#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

using wire::Policy;
using wire::ProcessState;

constexpr std::string_view kRegister = "cuMemHostRegister";
const char* const kCalls[] = {
    "cuCtxPushCurrent",   "cuEventCreate",     "cuEventRecord",       "cuMemAddressReserve",
    "cuEventSynchronize", "cuMemAlloc",        "cuMemCreate",         "cuMemFree",
    "cuMemGetInfo",       "cuMemHostRegister", "cuMemHostUnregister", "cuMemMap",
    "cuMemRelease",       "cuMemSetAccess",    "cuMemUnmap",          "cuMemcpyDtoHAsync",
    "cuMemcpyHtoDAsync",  "cuStreamCreate",    "cuStreamSynchronize"};

std::map<std::string, int> CallsSoFar(const ParkedProcess& p) {
  std::map<std::string, int> calls;
  for (const char* name : kCalls) calls[name] = p.fake.Calls(name);
  return calls;
}

// Where bytes go, and what host memory is like.
struct Way {
  const char* name;
  Policy policy;
  enum Memory { kPinned, kStaged, kPageable } memory;
};
const Way kHost = {"host", Policy::kHost, Way::kPinned};
const Way kDisk = {"disk", Policy::kDisk, Way::kPinned};
const Way kAuto = {"auto", Policy::kAuto, Way::kPinned};
const Way kWays[] = {kHost,
                     kDisk,
                     kAuto,
                     {"pageable through a stage", Policy::kHost, Way::kStaged},
                     {"pageable", Policy::kHost, Way::kPageable}};

// Slabs of 2 MiB, one for each tag and GPU; small, because this runs hundreds of times.
std::unique_ptr<ParkedProcess> Start(const Way& way, int devices = 2) {
  auto p = std::make_unique<ParkedProcess>(FakeDriver::Options{.devices = devices});
  p->files_in_memory = true;
  p->Allocate(1_MiB, "a", 0);
  p->Allocate(512_KiB, "a", 0);
  p->Allocate(700'000, "b", devices - 1);
  p->Allocate(1_MiB, "c", 0);
  p->Allocate(5000, "c", devices - 1);
  // Mapped twice, and memory that its device may only read and that needs addresses to move by.
  p->MapOwn(0, 2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  p->MapOwn(devices - 1, 1, CU_MEM_ACCESS_FLAGS_PROT_READ);
  if (way.memory == Way::kPinned) return p;
  // Pinning works for what is to be a stage, and never after that.
  const auto take = [&p](Bytes bytes) {
    REQUIRE(p->pool.Take(bytes, bytes, HostPool::For::kStage, Deadline::InMs(5000)).ok());
  };
  if (way.memory == Way::kStaged) take(4_MiB);
  p->fake.Fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, 1'000'000);
  take(6_MiB);
  return p;
}

// Several chunks for each slab, also on the way to the host under kAuto.
EvictionPlan PlanOf(const Way& way) {
  EvictionPlan plan;
  plan.chunk_bytes = 2_MiB;
  if (way.policy == Policy::kAuto) plan.host_bytes = 2_MiB;
  return plan;
}

// The file and the offset at which a page of a backup lies.
std::optional<std::pair<size_t, uint64_t>> FindInFiles(const ParkedProcess& p,
                                                       const std::string& page) {
  alignas(4096) static char found[4096];
  for (size_t file = 0; file < p.backups.size(); ++file) {
    for (uint64_t at = 0; pread(p.backups[file].get(), found, 4096, off_t(at)) == 4096;
         at += 4096) {
      if (memcmp(found, page.data(), 4096) == 0) return std::pair(file, at);
    }
  }
  return std::nullopt;
}

void FlipInFile(const Fd& file, uint64_t offset) {
  alignas(4096) static char page[4096];
  REQUIRE(pread(file.get(), page, sizeof page, off_t(offset)) == ssize_t(sizeof page));
  page[0] ^= 1;
  REQUIRE(pwrite(file.get(), page, sizeof page, off_t(offset)) == ssize_t(sizeof page));
}

// After whatever happened the process can be paused and resumed as if nothing had been.
void RequireWhole(ParkedProcess& p) {
  REQUIRE(p.Runs());
  REQUIRE(p.BytesRight());
  REQUIRE(p.pool.used() == 0);
  const auto paused = p.Pause(Policy::kHost).result;
  INFO((paused.ok() ? "" : paused.error().what));
  REQUIRE(paused.ok());
  REQUIRE(p.fake.handle_bytes() == 0);
  REQUIRE(p.Resume().result.ok());
  REQUIRE(p.Runs());
  REQUIRE(p.BytesRight());
  REQUIRE(p.fake.mistakes() == 0);
  const FakeDriver::Held held = p.fake.held();
  // What the last move has left for the next, for each GPU: a stream with 16 events to copy, one
  // with up to 32 to hash.
  const size_t gpus = p.contexts.List().size();
  REQUIRE(held.streams <= 2 * gpus);
  REQUIRE(held.events <= (16 + 32) * gpus);
  REQUIRE(held.modules <= gpus);
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
// is failed in the other builds, unless an emulator runs them.
#if defined(__SANITIZE_THREAD__)
const int kEvery = 7;
#else
const int kEvery = Emulated() ? 31 : 1;
#endif

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
      for (int n = 1; n <= after.at(name) - before.at(name); n += kEvery) {
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
  CHECK(refused > 100 / kEvery);
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
      for (int n = 1; n <= after.at(name) - before.at(name); n += kEvery) {
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
  CHECK(refused > 100 / kEvery);
}

TEST_CASE("every write of a pause and every read of a resume may fail") {
  const Error errors[] = {OsError(EIO, "disk"), OsError(ENOSPC, "disk"),
                          MakeError(Code::kDataLoss, "BACKUP_MISSING", "file ends")};
  int tried = 0;
  auto clean = Start(kDisk);
  REQUIRE(clean->Pause(Policy::kDisk, PlanOf(kDisk)).result.ok());
  const int writes = FaultyEngine::plan.completions;
  REQUIRE(clean->Resume().result.ok());
  const int reads = FaultyEngine::plan.completions - writes;
  clean.reset();
  REQUIRE(writes > 8);
  REQUIRE(reads == writes);
  for (int n = 1; n <= writes; ++n) {
    const Error& error = errors[n % 3];
    INFO("completion " << n << ": " << error.reason);
    auto p = Start(kDisk);
    FaultyEngine::plan.fail_at = n;
    FaultyEngine::plan.error = error;
    const auto paused = p->Pause(Policy::kDisk, PlanOf(kDisk));
    REQUIRE_FALSE(paused.result.ok());
    REQUIRE(std::string_view(paused.result.error().reason) == error.reason);
    RequireWhole(*p);

    p.reset();  // one fake driver at a time
    p = Start(kDisk);
    REQUIRE(p->Pause(Policy::kDisk, PlanOf(kDisk)).result.ok());
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
  for (const Way& way : kWays) {
    for (int copy = 1;; ++copy) {
      INFO("copy " << copy << ", " << way.name);
      auto p = Start(way, 1);
      abort_at = {&p->freezer, copy, p->driver.memcpy_dtoh_async};
      p->driver.memcpy_dtoh_async = CountedCopy;
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
  CHECK(tried > 10);
}

TEST_CASE(
    "an eviction that can be neither finished nor undone is partly moved, and resume ends it") {
  int tried = 0;
  const char* const undo_calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess",
                                    "cuMemcpyHtoDAsync"};
  for (const Way& way : {kHost, kDisk}) {
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

TEST_CASE("every block of every backup may have changed") {
  int tried = 0;
  for (const Way& way : kWays) {
    auto p = Start(way);
    std::vector<std::string> pages;  // one of each 64 KiB of the application's bytes
    for (const auto& buffer : p->app) {
      const auto* bytes = reinterpret_cast<const char*>(buffer.ptr);
      const Bytes first = RoundUp(buffer.ptr, 4096) - buffer.ptr;
      for (Bytes at = first; at + 4096 <= buffer.bytes; at += 64_KiB * kEvery) {
        pages.emplace_back(bytes + at, 4096);
      }
    }
    for (const std::string& page : pages) {
      INFO(way.name << ", page " << tried);
      REQUIRE(p->Pause(way.policy, PlanOf(way)).result.ok());
      std::vector<char*> changed = FaultyMemory::Find(page.data(), page.size());
      for (char* where : changed) *where ^= 1;
      const auto in_file = FindInFiles(*p, page);
      if (in_file) FlipInFile(p->backups[in_file->first], in_file->second);
      REQUIRE((in_file || !changed.empty()));
      const auto outcome = p->Resume();
      REQUIRE_FALSE(outcome.result.ok());
      REQUIRE(std::string_view(outcome.result.error().reason) == "BACKUP_CORRUPT");
      REQUIRE(p->Is(ProcessState::kPaused));
      REQUIRE(p->fake.handle_bytes() == 0);
      for (char* where : changed) *where ^= 1;
      if (in_file) FlipInFile(p->backups[in_file->first], in_file->second);
      REQUIRE(p->Resume().result.ok());
      REQUIRE(p->BytesRight());
      ++tried;
    }
    RequireWhole(*p);
  }
  printf("backups: %d changed bytes refused\n", tried);
  CHECK(tried > 100 / kEvery);
}

}  // namespace
}  // namespace parkade::shim
