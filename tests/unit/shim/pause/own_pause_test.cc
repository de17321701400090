// Pauses that the program asks for itself: each range goes where it was said when it was allocated,
// and a failure at every driver call leaves everything as it was.
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "tests/unit/shim/pause/engine_process.h"

namespace parkade::shim {
namespace {

using wire::GateMode;

const char* const kCalls[] = {"cuCtxPushCurrent",   "cuEventCreate",      "cuEventRecord",
                              "cuEventSynchronize", "cuMemAlloc",         "cuMemCreate",
                              "cuMemFree",          "cuMemHostRegister",  "cuMemMap",
                              "cuMemRelease",       "cuMemSetAccess",     "cuMemUnmap",
                              "cuMemcpyDtoHAsync",  "cuLaunchKernel",     "cuMemcpyHtoDAsync",
                              "cuStreamCreate",     "cuStreamSynchronize"};

std::map<std::string, int> CallsSoFar(const ParkedProcess& p) {
  std::map<std::string, int> calls;
  for (const char* name : kCalls) calls[name] = p.fake.Calls(name);
  return calls;
}

// Host memory of both kinds and a file on two GPUs, and memory that is none of the program's
// pauses.
std::unique_ptr<ParkedProcess> StartSaver() {
  auto p = std::make_unique<ParkedProcess>(FakeDriver::Options{.devices = 2});
  p->files_in_memory = true;
  p->same_files = true;
  p->Allocate(2_MiB + 300, "a", 0, Saving::kPinned);
  p->Allocate(100'000, "a", 0, Saving::kPageable);
  p->Allocate(70'000, "a", 1, Saving::kDisk);
  p->Allocate(40'000, "b", 1, Saving::kPinned);
  p->Allocate(5000, "b", 0, Saving::kDisk);
  p->Allocate(90'000, "rest", 0);
  return p;
}

Freezer::Outcome PauseOwn(ParkedProcess& p, std::vector<std::string> tags = {}) {
  EvictionPlan plan;
  plan.disk_bytes = kFileBytes;
  plan.chunk_bytes = 2_MiB;
  plan.elision = wire::Elision::kOff;
  plan.own = Wanted{std::move(tags)};
  return p.Pause(Policy::kDisk, plan,
                 {.mode = GateMode::kOpen, .exported = wire::OnExported::kKeep});
}

Freezer::Outcome ResumeOwn(ParkedProcess& p, std::vector<std::string> tags = {},
                           bool retains = false) {
  Freezer::Part part;
  part.tags = std::move(tags);
  part.retains = retains;
  return p.freezer.Resume(5, 0, part);
}

// The whole of the backup, in one piece.
bool CopyRight(const ParkedProcess& p, const ParkedProcess::Buffer& b) {
  const char* copy = p.heap.SavedCopy(b.ptr, b.bytes);
  if (copy == nullptr) return false;
  for (Bytes i = 0; i < b.bytes / 4; ++i) {
    const uint32_t word = ParkedProcess::Word(b, i);
    if (memcmp(copy + 4 * i, &word, sizeof word) != 0) return false;
  }
  return true;
}

TEST_CASE("each range goes where it was said, and what is not asked for stays") {
  auto p = StartSaver();
  const Bytes all = p->fake.handle_bytes();
  REQUIRE(PauseOwn(*p, {"a"}).result.ok());
  CHECK(IsPartlyPaused(*p, GateMode::kOpen));
  CHECK(p->fake.handle_bytes() == all - 8_MiB);  // handles of their own, of 2 MiB at least
  CHECK(TagRight(*p, "b"));
  CHECK(TagRight(*p, "rest"));
  CHECK(CopyRight(*p, p->app[0]));
  CHECK(CopyRight(*p, p->app[1]));
  CHECK(p->heap.SavedCopy(p->app[2].ptr, 1) == nullptr);
  CHECK(p->heap.SavedCopy(p->app[3].ptr, 1) == nullptr);
  REQUIRE(PauseOwn(*p).result.ok());
  CHECK(p->fake.handle_bytes() == 2_MiB);  // the slab of the rest
  CHECK(CopyRight(*p, p->app[3]));
  REQUIRE(ResumeOwn(*p, {"b"}).result.ok());
  CHECK(TagRight(*p, "b"));
  CHECK(IsPartlyPaused(*p, GateMode::kOpen));
  REQUIRE(ResumeOwn(*p).result.ok());
  RequireWhole(*p);
}

TEST_CASE("without a backup the bytes are dropped, and the memory comes back") {
  ParkedProcess p;
  const CUdeviceptr dropped = p.Allocate(3_MiB, "cache", 0, Saving::kDiscard);
  p.Allocate(100'000, "weights", 0, Saving::kPinned);
  REQUIRE(PauseOwn(p).result.ok());
  CHECK(p.fake.handle_bytes() == 0);
  CHECK(p.heap.SavedCopy(dropped, 1) == nullptr);
  REQUIRE(ResumeOwn(p).result.ok());
  CHECK(p.Runs());
  CHECK(p.BytesRight("cache"));
  CHECK_FALSE(p.BytesRight());
}

TEST_CASE("a copy is whole where all bytes are the same, and is not given beyond its allocation") {
  ParkedProcess p;
  constexpr Bytes kBytes = 5_MiB + 100;
  const CUdeviceptr at = p.Allocate(kBytes, "weights", 0, Saving::kPinned);
  memset(reinterpret_cast<void*>(at), 0, kBytes);
  CHECK(p.heap.SavedCopy(at, kBytes) == nullptr);
  REQUIRE(PauseOwn(p).result.ok());
  const char* copy = p.heap.SavedCopy(at, kBytes);
  REQUIRE(copy != nullptr);
  CHECK(std::all_of(copy, copy + kBytes, [](char c) { return c == 0; }));
  CHECK(p.heap.SavedCopy(at + 4_MiB, 1_MiB) == copy + 4_MiB);
  CHECK(p.heap.SavedCopy(at + kBytes - 1, 1) == copy + kBytes - 1);
  CHECK(p.heap.SavedCopy(at + 1, kBytes) == nullptr);
  CHECK(p.heap.SavedCopy(at + kBytes, 0) == nullptr);
  CHECK(p.heap.SavedCopy(at, SIZE_MAX) == nullptr);
  CHECK(p.heap.SavedCopy(at - 1, 1) == nullptr);
  REQUIRE(ResumeOwn(p).result.ok());
  CHECK(p.heap.SavedCopy(at, kBytes) == nullptr);
}

TEST_CASE("copies that are retained stay, are used again, and go with their allocation") {
  auto p = StartSaver();
  REQUIRE(PauseOwn(*p).result.ok());
  REQUIRE(ResumeOwn(*p, {}, true).result.ok());
  CHECK(p->Runs());
  for (const size_t i : {0u, 1u, 3u}) CHECK(CopyRight(*p, p->app[i]));
  CHECK(p->heap.SavedCopy(p->app[2].ptr, 1) == nullptr);
  const Bytes used = p->pool.used();
  const char* const copy = p->heap.SavedCopy(p->app[0].ptr, 1);
  Update(*p, "a");
  CHECK_FALSE(CopyRight(*p, p->app[0]));
  REQUIRE(PauseOwn(*p).result.ok());
  CHECK(CopyRight(*p, p->app[0]));
  CHECK(p->heap.SavedCopy(p->app[0].ptr, 1) == copy);
  REQUIRE(ResumeOwn(*p, {}, true).result.ok());
  CHECK(p->pool.used() == used);
  CUresult freed = CUDA_ERROR_UNKNOWN;
  REQUIRE(p->heap.Free(p->app[0].ptr, &freed));
  p->app.erase(p->app.begin());
  CHECK(p->pool.used() < used - 2_MiB);
  // A resume that does not retain lets go of the rest.
  REQUIRE(PauseOwn(*p).result.ok());
  REQUIRE(ResumeOwn(*p).result.ok());
  CHECK(p->pool.used() == 0);
  p->freezer.ReleaseUnusedHost();
  CHECK(p->pool.held() == 0);
  RequireWhole(*p);
}

TEST_CASE("a copy is in one piece also where nothing can be pinned") {
  auto p = StartSaver();
  p->fake.Fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, 1'000'000);
  REQUIRE(PauseOwn(*p).result.ok());
  for (const size_t i : {0u, 1u, 3u}) CHECK(CopyRight(*p, p->app[i]));
  REQUIRE(ResumeOwn(*p).result.ok());
  RequireWhole(*p);
}

TEST_CASE(
    "a host without room refuses a pause before anything has moved, and copies that are kept fit") {
  auto p = StartSaver();
  const Bytes all = p->fake.handle_bytes();
  ParkedProcess::host_room = 2_MiB;
  const auto refused = PauseOwn(*p);
  REQUIRE_FALSE(refused.result.ok());
  CHECK(std::string(refused.result.error().reason) == "HOST_MEMORY");
  CHECK(p->Runs());
  CHECK(p->fake.handle_bytes() == all);
  ParkedProcess::host_room = 3_MiB;
  REQUIRE(PauseOwn(*p).result.ok());
  REQUIRE(ResumeOwn(*p, {}, true).result.ok());
  ParkedProcess::host_room = 0;
  REQUIRE(PauseOwn(*p).result.ok());
  REQUIRE(ResumeOwn(*p).result.ok());
  RequireWhole(*p);
}

TEST_CASE("host memory that is not there refuses a pause before anything has moved") {
  auto p = StartSaver();
  const Bytes all = p->fake.handle_bytes();
  for (size_t n = 1; n <= 3; ++n) {
    FaultyMemory::FailFrom(n);
    const auto refused = PauseOwn(*p);
    REQUIRE_FALSE(refused.result.ok());
    CHECK(std::string(refused.result.error().reason) == "HOST_MEMORY");
    CHECK(p->Runs());
    CHECK(p->fake.handle_bytes() == all);
    CHECK(p->pool.used() == 0);
  }
  FaultyMemory::FailFrom(0);
  RequireWhole(*p);
}

TEST_CASE("every driver call of a pause of the program's own may fail, and it goes on as before") {
  int tried = 0, refused = 0;
  for (const bool again : {false, true}) {
    const auto start = [again] {
      auto p = StartSaver();
      if (!again) return p;
      // With copies that are retained, and something out.
      REQUIRE(PauseOwn(*p).result.ok());
      REQUIRE(ResumeOwn(*p, {}, true).result.ok());
      REQUIRE(PauseOwn(*p, {"b"}).result.ok());
      Update(*p, "a");
      return p;
    };
    auto clean = start();
    const auto before = CallsSoFar(*clean);
    REQUIRE(PauseOwn(*clean, {"a"}).result.ok());
    const auto after = CallsSoFar(*clean);
    clean.reset();
    for (const char* name : kCalls) {
      for (int n = 1; n <= after.at(name) - before.at(name); n += kEvery) {
        INFO(name << " number " << n);
        auto p = start();
        const Bytes held = p->fake.handle_bytes();
        p->fake.Fail(name, n, CUDA_ERROR_UNKNOWN);
        const auto outcome = PauseOwn(*p, {"a"});
        ++tried;
        p->fake.FaultPending(name);
        if (!outcome.result.ok()) {
          ++refused;
          REQUIRE(p->fake.handle_bytes() == held);
          REQUIRE(TagRight(*p, "a"));
          REQUIRE((again ? IsPartlyPaused(*p, GateMode::kOpen) : p->Runs()));
        }
        REQUIRE(ResumeOwn(*p).result.ok());
        RequireWhole(*p);
      }
    }
  }
  printf("own pause: %d driver calls failed in turn, %d of them undid it\n", tried, refused);
  CHECK(refused > 30 / kEvery);
}

TEST_CASE("every driver call of a resume of the program's own may fail, and it stays paused") {
  int tried = 0, refused = 0;
  const auto start = [] {
    auto p = StartSaver();
    REQUIRE(PauseOwn(*p).result.ok());
    return p;
  };
  auto clean = start();
  const auto before = CallsSoFar(*clean);
  REQUIRE(ResumeOwn(*clean, {"a"}, true).result.ok());
  const auto after = CallsSoFar(*clean);
  clean.reset();
  for (const char* name : kCalls) {
    for (int n = 1; n <= after.at(name) - before.at(name); n += kEvery) {
      INFO(name << " number " << n);
      auto p = start();
      const Bytes held = p->fake.handle_bytes();
      p->fake.Fail(name, n, CUDA_ERROR_UNKNOWN);
      const auto outcome = ResumeOwn(*p, {"a"}, true);
      ++tried;
      p->fake.FaultPending(name);
      if (!outcome.result.ok()) {
        ++refused;
        REQUIRE(IsPartlyPaused(*p, GateMode::kOpen));
        REQUIRE(p->fake.handle_bytes() == held);
        REQUIRE(CopyRight(*p, p->app[0]));
        REQUIRE(ResumeOwn(*p, {"a"}).result.ok());
      }
      REQUIRE(TagRight(*p, "a"));
      REQUIRE(ResumeOwn(*p).result.ok());
      RequireWhole(*p);
    }
  }
  printf("own resume: %d driver calls failed in turn, %d of them left all out\n", tried, refused);
  CHECK(refused > 20 / kEvery);
}

}  // namespace
}  // namespace parkade::shim
