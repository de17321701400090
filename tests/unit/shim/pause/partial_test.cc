// Pauses and resumes of some tags, in several steps: order, bytes, gates, files, and the way back.
#include <sched.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "shim/ipc/import.h"
#include "tests/unit/shim/pause/engine_process.h"

namespace parkade::shim {
namespace {

using wire::GateMode;

// The buffers in the order in which their first bytes were copied in; the driver's functions carry
// no context.
struct CopyOrder {
  const ParkedProcess* p = nullptr;
  decltype(&cuMemcpyHtoDAsync_v2) real = nullptr;
  std::vector<std::string> tags;  // those that follow each other once
} copy_order;

CUresult NotedCopy(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  for (const ParkedProcess::Buffer& b : copy_order.p->app) {
    if (to < b.ptr || to >= b.ptr + b.bytes) continue;
    if (copy_order.tags.empty() || copy_order.tags.back() != b.tag) {
      copy_order.tags.push_back(b.tag);
    }
    break;
  }
  return copy_order.real(to, from, bytes, stream);
}

TEST_CASE("weights come back, are written to in place, and the cache follows") {
  for (const Split& split : {kAllToHost, kAllToDisk, kMixed}) {
    auto p = StartWithWeightsBack(split);
    const Bytes weights = p->fake.handle_bytes();
    CHECK(weights > 0);
    CHECK(TagRight(*p, kWeights));
    CHECK(p->heap.AnyOut());
    REQUIRE(ResumeTags(*p, {kCache}).result.ok());
    CHECK(IsPartlyPaused(*p, GateMode::kOpen));  // the rest is still out
    CHECK(TagRight(*p, kCache));
    CHECK(p->fake.handle_bytes() > weights);
    REQUIRE(p->Resume().result.ok());
    RequireWhole(*p);
  }
}

TEST_CASE("tags come back in the order in which they are named") {
  const std::vector<std::vector<std::string>> orders = {
      {kWeights, kCache, "default"}, {"default", kWeights, kCache}, {kCache, kWeights}};
  for (const auto& order : orders) {
    auto p = std::make_unique<ParkedProcess>();
    for (const char* tag : {kCache, kWeights, "default", kWeights}) p->Allocate(200'000, tag);
    copy_order = {p.get(), p->driver.memcpy_htod_async, {}};
    p->driver.memcpy_htod_async = NotedCopy;
    REQUIRE(PauseEngine(*p, kAllToHost).result.ok());
    REQUIRE(ResumeTags(*p, order).result.ok());
    CHECK(copy_order.tags == order);
    REQUIRE(p->Resume().result.ok());
    CHECK(p->Runs());
    CHECK(p->BytesRight());
  }
}

TEST_CASE("the last tags that come back let the process run, and unknown ones change nothing") {
  auto p = StartWithWeightsBack(kAllToHost);
  CHECK(ResumeTags(*p, {"no_such"}).already);
  CHECK(ResumeTags(*p, {kWeights}).already);
  CHECK(IsPartlyPaused(*p, GateMode::kOpen));
  const auto last = ResumeTags(*p, {"default", kCache});
  REQUIRE(last.result.ok());
  CHECK_FALSE(last.already);
  RequireWhole(*p);
}

TEST_CASE("a gate that is to stay closed holds the process until all is back") {
  auto p = StartEngine();
  REQUIRE(PauseEngine(*p, kAllToHost).result.ok());
  REQUIRE(ResumeTags(*p, {kWeights}, GateMode::kClosed).result.ok());
  CHECK(IsPartlyPaused(*p, GateMode::kClosed));
  CHECK(TagRight(*p, kWeights));
  CHECK(ResumeTags(*p, {kWeights}, GateMode::kClosed).already);
  // The same with the gate open is something to do; a resume does not close it again.
  const auto opened = ResumeTags(*p, {kWeights});
  CHECK(opened.result.ok());
  CHECK_FALSE(opened.already);
  CHECK(IsPartlyPaused(*p, GateMode::kOpen));
  REQUIRE(ResumeTags(*p, {kCache}, GateMode::kClosed).result.ok());
  CHECK(IsPartlyPaused(*p, GateMode::kOpen));
  REQUIRE(p->Resume().result.ok());
  RequireWhole(*p);
}

TEST_CASE("a further pause takes what is in HBM, new memory too, and closes the gate") {
  for (const Split& split : {kAllToHost, kAllToDisk, kMixed}) {
    auto p = StartWithWeightsBack(split);
    p->Allocate(300'000, kCache, 0);
    p->Allocate(2_MiB, kWeights, 1);
    const auto paused = PauseEngine(*p, split);
    REQUIRE(paused.result.ok());
    CHECK_FALSE(paused.already);
    CHECK(p->Is(ProcessState::kPaused));
    CHECK(p->fake.handle_bytes() == 0);
    REQUIRE(ResumeTags(*p, {kCache, kWeights}).result.ok());
    CHECK(TagRight(*p, kCache));
    CHECK(TagRight(*p, kWeights));
    REQUIRE(p->Resume().result.ok());
    RequireWhole(*p);
  }
}

TEST_CASE("tags are paused one after the other, each with its own policy") {
  for (const Policy first : {Policy::kHost, Policy::kDisk}) {
    for (const Policy second : {Policy::kHost, Policy::kDisk}) {
      auto p = StartEngine();
      const Freezer::GateOrder open{.mode = GateMode::kOpen};
      REQUIRE(PauseEngine(*p, {first, Policy::kKeep, Policy::kKeep}, open).result.ok());
      CHECK(IsPartlyPaused(*p, GateMode::kOpen));
      CHECK(TagRight(*p, kWeights));
      Update(*p, kWeights);
      REQUIRE(PauseEngine(*p, {Policy::kKeep, second, Policy::kKeep}, open).result.ok());
      CHECK(IsPartlyPaused(*p, GateMode::kOpen));
      CHECK(TagRight(*p, "default"));
      REQUIRE(PauseEngine(*p, {second, first, first}).result.ok());
      CHECK(p->Is(ProcessState::kPaused));
      CHECK(p->fake.handle_bytes() == 0);
      REQUIRE(ResumeTags(*p, {kCache}).result.ok());
      CHECK(TagRight(*p, kCache));
      REQUIRE(p->Resume().result.ok());
      RequireWhole(*p);
    }
  }
}

TEST_CASE("a pause of what is out closes an open gate, and is already done where that is closed") {
  auto p = StartEngine();
  const Split cache{Policy::kHost, Policy::kKeep, Policy::kKeep};
  REQUIRE(PauseEngine(*p, cache, {.mode = GateMode::kOpen}).result.ok());
  const auto again = PauseEngine(*p, cache, {.mode = GateMode::kOpen});
  CHECK(again.already);
  CHECK(IsPartlyPaused(*p, GateMode::kOpen));
  const auto closes = PauseEngine(*p, cache);
  REQUIRE(closes.result.ok());
  CHECK_FALSE(closes.already);
  CHECK(IsPartlyPaused(*p, GateMode::kClosed));
  CHECK(PauseEngine(*p, cache).already);
  // No pause opens it.
  REQUIRE(PauseEngine(*p, kAllToHost, {.mode = GateMode::kOpen}).result.ok());
  CHECK(IsPartlyPaused(*p, GateMode::kClosed));
  CHECK(p->Prepare().already);
  REQUIRE(p->Resume().result.ok());
  RequireWhole(*p);
}

TEST_CASE("a further pause that brings other files is refused while bytes are out in the first") {
  auto p = StartWithWeightsBack(kAllToDisk);
  p->same_files = false;
  const auto refused = PauseEngine(*p, kAllToDisk);
  REQUIRE_FALSE(refused.result.ok());
  CHECK(std::string(refused.result.error().reason) == "OTHER_FILES");
  CHECK(IsPartlyPaused(*p, GateMode::kOpen));
  CHECK(TagRight(*p, kWeights));
  // To host memory it needs none, and what is in the files stays there.
  REQUIRE(PauseEngine(*p, kAllToHost).result.ok());
  REQUIRE(p->Resume().result.ok());
  RequireWhole(*p);
}

TEST_CASE("files without room for more than they hold refuse a further pause") {
  auto p = StartWithWeightsBack(kAllToDisk);
  EvictionPlan plan;
  plan.chunk_bytes = 2_MiB;
  plan.disk_bytes = 1_MiB;  // less than the cache has out
  const auto refused = p->Pause(Policy::kDisk, plan);
  REQUIRE_FALSE(refused.result.ok());
  CHECK(std::string(refused.result.error().reason) == "DISK_SPACE");
  CHECK(IsPartlyPaused(*p, GateMode::kOpen));
  REQUIRE(p->Resume().result.ok());
  RequireWhole(*p);
}

TEST_CASE("the last pause can be taken back: what it has moved, and its gate") {
  auto p = StartWithWeightsBack(kMixed);
  const Bytes before = p->fake.handle_bytes();
  CHECK(p->freezer.Resume(6, 0, {.undoes_pause = true}).already);  // a resume came after the pause
  REQUIRE(PauseEngine(*p, kMixed).result.ok());
  REQUIRE(p->fake.handle_bytes() == 0);
  const auto undone = p->freezer.Resume(6, 0, {.undoes_pause = true});
  REQUIRE(undone.result.ok());
  CHECK_FALSE(undone.already);
  CHECK(IsPartlyPaused(*p, GateMode::kOpen));
  CHECK(p->fake.handle_bytes() == before);
  CHECK(TagRight(*p, kWeights));
  CHECK(p->freezer.Resume(6, 0, {.undoes_pause = true}).already);
  REQUIRE(p->Resume().result.ok());
  RequireWhole(*p);

  // Of a first pause: the process runs.
  REQUIRE(PauseEngine(*p, kMixed).result.ok());
  REQUIRE(p->freezer.Resume(6, 0, {.undoes_pause = true}).result.ok());
  RequireWhole(*p);
}

TEST_CASE("a further pause lets nothing through a gate that was closed before it") {
  auto p = StartEngine();
  REQUIRE(PauseEngine(*p, kAllToHost).result.ok());
  REQUIRE(ResumeTags(*p, {kWeights}, GateMode::kClosed).result.ok());
  std::atomic<bool> launched{false};
  std::thread waits([&launched] {
    if (!Gate::Enter(Gate::Call::kWork)) return;
    launched = true;
    Gate::Leave();
  });
  while (Gate::WaitingThreads() == 0) std::this_thread::yield();
  REQUIRE(p->Prepare().result.ok());
  Gate::Nudge();
  const auto let = p->freezer.LetThrough(1, Deadline::InMs(1000), Deadline::InMs(20));
  REQUIRE(let.result.ok());
  CHECK(let.stats.let_through == 0);
  CHECK(p->freezer.Abort().result.ok());
  CHECK(IsPartlyPaused(*p, GateMode::kClosed));
  CHECK_FALSE(launched);
  REQUIRE(p->Resume().result.ok());
  waits.join();
  CHECK(launched);
  RequireWhole(*p);
}

TEST_CASE("what is prepared for a further pause goes back to being paused in part") {
  auto p = StartWithWeightsBack(kMixed);
  REQUIRE(p->Prepare().result.ok());
  CHECK(p->Is(ProcessState::kPrepared));
  CHECK(p->freezer.Abort().result.ok());
  CHECK(IsPartlyPaused(*p, GateMode::kOpen));
  // An abort of a pause that has succeeded changes nothing, nor does it make a later undo possible.
  REQUIRE(PauseEngine(*p, kMixed).result.ok());
  REQUIRE(p->Prepare().already);
  CHECK(p->freezer.Abort().result.ok());
  CHECK(p->Is(ProcessState::kPaused));
  CHECK(p->freezer.Resume(6, 0, {.undoes_pause = true}).already);
  REQUIRE(p->Resume().result.ok());
  RequireWhole(*p);
}

TEST_CASE("memory of others is mapped whenever the gate is open") {
  ParkedProcess p;
  const CUdeviceptr shared = p.Allocate(40_MiB, kWeights);
  p.Allocate(40_MiB, kCache);
  // The process stands for both: it exports, and imports from itself.
  const auto handle = p.exports.Export(shared);
  REQUIRE(handle.ok());
  CUresult result = CUDA_ERROR_UNKNOWN;
  auto import = p.imports.Ask(*ReadToken(*handle), &result);
  REQUIRE(import != nullptr);
  CUdeviceptr opened = 0;
  REQUIRE(p.imports.Map(std::move(import), &opened) == CUDA_SUCCESS);
  const auto mapped = [&] { return p.imports.Find(opened)->resident; };
  for (int round = 0; round < 2; ++round) {
    REQUIRE(PauseEngine(p, kAllToHost).result.ok());
    CHECK(p.fake.handle_bytes() == 0);
    REQUIRE(ResumeTags(p, {kWeights}, GateMode::kClosed).result.ok());
    CHECK_FALSE(mapped());
    // Nor does a pause that would keep such memory bring it back behind the closed gate.
    REQUIRE(PauseEngine(p, kAllToHost, {.exported = wire::OnExported::kKeep}).result.ok());
    REQUIRE(ResumeTags(p, {kWeights}, GateMode::kClosed).result.ok());
    CHECK_FALSE(mapped());
    REQUIRE(ResumeTags(p, {kWeights}).result.ok());
    REQUIRE(IsPartlyPaused(p, GateMode::kOpen));
    REQUIRE(mapped());
    CHECK(p.heap.HeldBytes() == 40_MiB);
    CHECK(memcmp(reinterpret_cast<void*>(opened), reinterpret_cast<void*>(shared), 4096) == 0);
  }
  // A pause that keeps its gate open lets nobody take the memory away.
  REQUIRE(PauseEngine(p, kAllToHost, {.mode = GateMode::kOpen}).result.ok());
  CHECK(mapped());
  CHECK(TagRight(p, kWeights));
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
  CHECK(p.imports.Close(opened) == CUDA_SUCCESS);
  CHECK(p.fake.mistakes() == 0);
}

TEST_CASE("a further pause that fails at a closed gate leaves it closed, and frees still pass") {
  auto p = StartEngine();
  REQUIRE(PauseEngine(*p, kAllToDisk).result.ok());
  REQUIRE(ResumeTags(*p, {kWeights}, GateMode::kClosed).result.ok());
  REQUIRE(p->Prepare().result.ok());
  CHECK(p->Is(ProcessState::kPrepared));
  REQUIRE(p->freezer.Abort().result.ok());
  CHECK(IsPartlyPaused(*p, GateMode::kClosed));
  EvictionPlan plan;
  plan.chunk_bytes = 2_MiB;
  plan.disk_bytes = 1_MiB;  // less than the cache has out
  REQUIRE_FALSE(p->Pause(Policy::kDisk, plan).result.ok());
  CHECK(IsPartlyPaused(*p, GateMode::kClosed));
  std::atomic<bool> passed{false};
  std::thread frees([&] {
    passed = Gate::Enter(Gate::Call::kFree);
    if (passed) Gate::Leave();
  });
  for (const Deadline by = Deadline::InMs(5000); !passed && !by.Passed();) sched_yield();
  CHECK(passed);
  REQUIRE(p->Resume().result.ok());
  frees.join();
  RequireWhole(*p);
}

TEST_CASE("captures hold a further pause up as they do the first") {
  auto p = StartWithWeightsBack(kMixed);
  const auto stream = reinterpret_cast<CUstream>(uintptr_t(0x77));
  Gate::CaptureBegins(stream);
  p->freezer.ClearAbort();
  const auto refused = p->freezer.Prepare(Deadline::InMs(50), {});
  Gate::CaptureEnded(stream);
  REQUIRE_FALSE(refused.result.ok());
  CHECK(std::string(refused.result.error().reason) == "CAPTURE_ACTIVE");
  CHECK(IsPartlyPaused(*p, GateMode::kOpen));
  REQUIRE(p->Resume().result.ok());
  RequireWhole(*p);
}

TEST_CASE("memory that is freed while it is out is not missed by what follows") {
  for (const Split& split : {kAllToHost, kAllToDisk}) {
    auto p = StartWithWeightsBack(split);
    CUresult freed = CUDA_ERROR_UNKNOWN;
    REQUIRE(p->heap.Free(p->app[0].ptr, &freed));
    REQUIRE(freed == CUDA_SUCCESS);
    p->app.erase(p->app.begin());
    REQUIRE(PauseEngine(*p, split).result.ok());
    CHECK(p->fake.handle_bytes() == 0);
    REQUIRE(ResumeTags(*p, {kCache}).result.ok());
    CHECK(TagRight(*p, kCache));
    REQUIRE(p->Resume().result.ok());
    RequireWhole(*p);
  }
}

TEST_CASE("a cache that was discarded comes back without its bytes, the weights with theirs") {
  auto p = StartWithWeightsBack({Policy::kDiscard, Policy::kDisk, Policy::kDisk});
  REQUIRE(ResumeTags(*p, {kCache}).result.ok());
  CHECK(TagRight(*p, kWeights));
  Update(*p, kCache);
  REQUIRE(p->Resume().result.ok());
  RequireWhole(*p);
}

}  // namespace
}  // namespace parkade::shim
