// Pauses and resumes of a whole process on the fake driver: bytes and states.
#include "shim/pause/freezer.h"

#include <unistd.h>

#include <thread>

#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

using wire::Policy;
using wire::ProcessState;

TEST_CASE("bytes come back from host memory and from disk, in turn") {
  ParkedProcess p;
  for (const Bytes bytes :
       {Bytes(1), Bytes(511), Bytes(6912), 2_MiB - 1, 2_MiB, 2_MiB + 1, 20_MiB, 40_MiB + 12345}) {
    p.Allocate(bytes);
  }
  const Bytes before = p.fake.handle_bytes();
  REQUIRE(before > 0);
  for (int cycle = 0; cycle < 6; ++cycle) {
    const auto paused = p.Pause(cycle % 2 == 0 ? Policy::kHost : Policy::kDisk);
    REQUIRE(paused.result.ok());
    REQUIRE(p.Is(ProcessState::kPaused));
    CHECK(p.fake.handle_bytes() == 0);
    CHECK(paused.stats.released_bytes == before);
    CHECK((paused.stats.host_bytes == 0) == (cycle % 2 == 1));
    CHECK((paused.stats.disk_bytes == 0) == (cycle % 2 == 0));
    const auto resumed = p.Resume();
    REQUIRE(resumed.result.ok());
    REQUIRE(p.Runs());
    CHECK(resumed.stats.released_bytes == before);
    REQUIRE(p.BytesRight());
    for (auto& buffer : p.app) {
      buffer.seed += 100;
      p.Fill(buffer);
    }
  }
  CHECK(p.fake.mistakes() == 0);
}

TEST_CASE("with the gate open the process works and allocates while its bytes are out") {
  ParkedProcess p;
  p.Allocate(3_MiB, "weights");
  p.Allocate(40_MiB, "kv_cache");
  EvictionPlan plan;
  const wire::TagPolicy keep = ParkedProcess::Tag("weights", Policy::kKeep);
  plan.tags = std::span(&keep, 1);
  REQUIRE(p.Pause(Policy::kHost, plan, {.epoch = 7, .mode = wire::GateMode::kOpen}).result.ok());
  CHECK(p.freezer.state() == ProcessState::kPaused);
  CHECK_FALSE(Gate::IsClosed());
  CHECK(ParkedProcess::Right(p.app[0]));  // kept, and usable
  const auto during = wire::ReadLedgerHeader(p.ledger->fd());
  REQUIRE(during.ok());
  CHECK(during->gate_mode == uint64_t(wire::GateMode::kOpen));
  CHECK(during->epoch == 7);
  p.Allocate(1000, "kv_cache");
  p.Allocate(50_MiB, "weights");
  REQUIRE(p.Resume().result.ok());
  CHECK(p.Runs());
  CHECK(p.BytesRight());
  CHECK(wire::ReadLedgerHeader(p.ledger->fd())->gate_mode == 0);
  CHECK(p.fake.mistakes() == 0);
}

TEST_CASE("the highest epoch stays, also of a call that found nothing to do") {
  ParkedProcess p;
  p.Allocate(3_MiB);
  REQUIRE(p.Pause(Policy::kHost, {}, {.epoch = 7}).result.ok());
  CHECK(p.Prepare({.epoch = 9}).already);
  CHECK(wire::ReadLedgerHeader(p.ledger->fd())->epoch == 9);
  REQUIRE(p.freezer.Resume(3, 8).result.ok());
  CHECK(wire::ReadLedgerHeader(p.ledger->fd())->epoch == 9);
}

TEST_CASE("a prepared process lets one call through and is prepared again") {
  ParkedProcess p;
  p.Allocate(3_MiB);
  CHECK_FALSE(p.freezer.LetThrough(1, Deadline::InMs(100), Deadline::InMs(10)).result.ok());
  REQUIRE(p.Prepare().result.ok());
  const auto none = p.freezer.LetThrough(1, Deadline::InMs(5000), Deadline::InMs(10));
  REQUIRE(none.result.ok());
  CHECK(none.stats.let_through == 0);
  std::atomic<int> passed{0};
  std::thread application([&] {
    for (int i = 0; i < 2; ++i) {
      if (!Gate::Enter()) return;
      ++passed;
      Gate::Leave();
    }
  });
  const auto one = p.freezer.LetThrough(1, Deadline::InMs(5000), Deadline::InMs(5000));
  REQUIRE(one.result.ok());
  CHECK(one.stats.let_through == 1);
  CHECK(one.stats.pausable_bytes >= 3_MiB);
  CHECK(passed == 1);
  CHECK(p.Is(ProcessState::kPrepared));
  REQUIRE(p.freezer.Abort().result.ok());
  application.join();
  CHECK(passed == 2);
  CHECK(p.Runs());
}

TEST_CASE("pausing what is paused and resuming what runs says already") {
  ParkedProcess p;
  p.Allocate(3_MiB);
  CHECK(p.Resume().already);
  REQUIRE(p.Pause(Policy::kHost).result.ok());
  const auto prepared = p.Prepare();
  CHECK(prepared.result.ok());
  CHECK(prepared.already);
  CHECK(p.freezer.Commit(4, {}).already);
  REQUIRE(p.Is(ProcessState::kPaused));
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
}

TEST_CASE("host memory that was given back is no longer in the ledger") {
  ParkedProcess p;
  p.Allocate(3_MiB);
  REQUIRE(p.Pause(Policy::kHost).result.ok());
  REQUIRE(p.Resume().result.ok());
  wire::LedgerHeader header;
  REQUIRE(pread(p.ledger->fd(), &header, sizeof header, 0) == ssize_t(sizeof header));
  CHECK(header.host_pool_bytes >= 3_MiB);
  p.freezer.ReleaseHost();
  CHECK(p.pool.held() == 0);
  REQUIRE(pread(p.ledger->fd(), &header, sizeof header, 0) == ssize_t(sizeof header));
  CHECK(header.host_pool_bytes == 0);
}

TEST_CASE("a commit without a prepare changes nothing") {
  ParkedProcess p;
  p.Allocate(3_MiB);
  const auto outcome = p.freezer.Commit(1, {});
  CHECK(outcome.result.error().code == Code::kFailedPrecondition);
  CHECK(p.Runs());
  CHECK(p.BytesRight());
}

TEST_CASE("abort of what is prepared opens the gate") {
  ParkedProcess p;
  p.Allocate(3_MiB);
  REQUIRE(p.Prepare().result.ok());
  REQUIRE(p.Is(ProcessState::kPrepared));
  CHECK(p.freezer.Abort().result.ok());
  CHECK(p.Runs());
}

TEST_CASE("a pause with nothing to move pauses") {
  ParkedProcess p;
  REQUIRE(p.Pause(Policy::kDisk).result.ok());
  CHECK(p.Is(ProcessState::kPaused));
  REQUIRE(p.Resume().result.ok());
  CHECK(p.Runs());
}

TEST_CASE("grants that do not suffice refuse the pause before anything moves") {
  ParkedProcess p;
  p.Allocate(40_MiB);
  EvictionPlan plan;
  plan.host_bytes = 39_MiB;
  const auto host = p.Pause(Policy::kHost, plan);
  CHECK(std::string_view(host.result.error().reason) == "HOST_MEMORY");
  plan.host_bytes = 20_MiB;
  plan.disk_bytes = 20_MiB - 4096;
  const auto both = p.Pause(Policy::kAuto, plan);
  CHECK(std::string_view(both.result.error().reason) == "DISK_SPACE");
  plan.host_bytes = 0;
  plan.disk_bytes = 20_MiB;
  CHECK(std::string_view(p.Pause(Policy::kDisk, plan).result.error().reason) == "DISK_SPACE");
  CHECK(p.Runs());
  CHECK(p.BytesRight());
  CHECK(p.fake.Calls("cuMemcpyDtoHAsync") == 0);
  CHECK(p.pool.held() == 0);
}

TEST_CASE("auto fills the host grant and sends the rest to disk") {
  ParkedProcess p;
  p.file_count = 3;
  p.Allocate(40_MiB);
  p.Allocate(50_MiB + 4096);
  EvictionPlan plan;
  plan.host_bytes = 45_MiB;
  const auto paused = p.Pause(Policy::kAuto, plan);
  REQUIRE(paused.result.ok());
  CHECK(paused.stats.host_bytes == 45_MiB);
  CHECK(paused.stats.disk_bytes == 45_MiB + 4096);
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
}

TEST_CASE("the host memory of a disk pause is its stage") {
  ParkedProcess p;
  p.Allocate(200_MiB);
  EvictionPlan plan;
  plan.chunk_bytes = 16_MiB;
  REQUIRE(p.Pause(Policy::kDisk, plan).result.ok());
  CHECK(p.pool.held() == 16_MiB);
  CHECK(FaultyEngine::plan.deepest > 1);
  REQUIRE(p.Resume().result.ok());
  CHECK(p.pool.held() == 16_MiB);
  CHECK(p.pool.used() == 0);
  CHECK(p.BytesRight());
}

TEST_CASE("the pool outlives a pause to disk, so that the next one to the host is warm") {
  ParkedProcess p;
  p.Allocate(40_MiB);
  for (const Policy policy : {Policy::kHost, Policy::kDisk, Policy::kHost}) {
    REQUIRE(p.Pause(policy).result.ok());
    REQUIRE(p.Resume().result.ok());
  }
  const int registered = p.fake.Calls("cuMemHostRegister");
  REQUIRE(p.Pause(Policy::kHost).result.ok());
  CHECK(p.fake.Calls("cuMemHostRegister") == registered);
  CHECK(p.fake.Calls("cuMemHostUnregister") == 0);
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
}

TEST_CASE("tags have policies of their own: keep stays, discard comes back undefined") {
  ParkedProcess p;
  p.Allocate(40_MiB, "weights");
  p.Allocate(40_MiB, "kv_cache");
  const CUdeviceptr kept = p.Allocate(40_MiB, "cuda_graph");
  const wire::TagPolicy tags[] = {ParkedProcess::Tag("kv_cache", Policy::kDiscard),
                                  ParkedProcess::Tag("cuda_graph", Policy::kKeep)};
  EvictionPlan plan;
  plan.tags = tags;
  const auto paused = p.Pause(Policy::kHost, plan);
  REQUIRE(paused.result.ok());
  CHECK(paused.stats.kept_bytes == 40_MiB);
  CHECK(paused.stats.discarded_bytes == 40_MiB);
  CHECK(paused.stats.host_bytes == 40_MiB);
  CHECK(p.heap.Find(kept)->resident);
  CHECK(p.fake.handle_bytes() == 40_MiB);
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight("kv_cache"));
  memset(reinterpret_cast<void*>(p.app[1].ptr), 1, p.app[1].bytes);  // mapped again
}

TEST_CASE("discard without a named tag is refused") {
  ParkedProcess p;
  p.Allocate(4_MiB);
  const auto outcome = p.Pause(Policy::kDiscard);
  CHECK(outcome.result.error().code == Code::kInvalidArgument);
  CHECK(p.Runs());
  CHECK(p.BytesRight());
}

TEST_CASE("two GPUs of one process move at once, each under its own context") {
  ParkedProcess p({.devices = 2});
  for (const Policy policy : {Policy::kHost, Policy::kDisk}) {
    p.Allocate(48_MiB, "default", 0);
    p.Allocate(36_MiB + 8192, "default", 1);
    p.Allocate(5_MiB, "default", 1);
    REQUIRE(p.Pause(policy).result.ok());
    CHECK(p.fake.handle_bytes() == 0);
    REQUIRE(p.Resume().result.ok());
    CHECK(p.BytesRight());
  }
  CHECK(p.fake.mistakes() == 0);
}

TEST_CASE("freeing what is paused needs no GPU and gives its host memory back") {
  ParkedProcess p;
  const CUdeviceptr gone = p.Allocate(48_MiB);
  p.Allocate(40_MiB);
  REQUIRE(p.Pause(Policy::kHost).result.ok());
  CHECK(p.pool.used() == 88_MiB);
  CUresult result = CUDA_ERROR_UNKNOWN;
  REQUIRE(p.heap.Free(gone, &result));
  CHECK(result == CUDA_SUCCESS);
  CHECK(p.pool.used() == 40_MiB);
  p.app.erase(p.app.begin());
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
  CHECK(p.pool.used() == 40_MiB);  // kept for the next pause
  p.freezer.ReleaseHost();
  CHECK(p.pool.held() == 0);
}

TEST_CASE("no room at resume: stays paused, names the bytes, and the retry works") {
  ParkedProcess p({.memory = 256_MiB});
  p.Allocate(100_MiB);
  p.Allocate(60_MiB);
  REQUIRE(p.Pause(Policy::kHost).result.ok());
  CUdeviceptr hog = 0;
  FakeDriver::MakeCurrent(p.fake.Context(0));
  {
    ScopedRelaxedCapture relaxed(p.driver);
    REQUIRE(p.driver.mem_alloc(&hog, 150_MiB) == CUDA_SUCCESS);
  }
  const auto refused = p.Resume();
  REQUIRE_FALSE(refused.result.ok());
  CHECK(std::string_view(refused.result.error().reason) == "GPU_MEMORY");
  INFO(refused.result.error().what);
  CHECK(std::string_view(refused.result.error().what).find("160 MiB needed") !=
        std::string_view::npos);
  CHECK(refused.stats.needed_bytes == 160_MiB);
  CHECK(refused.stats.free_bytes >= 50_MiB);
  CHECK(refused.device == 0);
  CHECK(p.Is(ProcessState::kPaused));
  CHECK(p.fake.handle_bytes() == 0);
  {
    ScopedRelaxedCapture relaxed(p.driver);
    REQUIRE(p.driver.mem_free(hog) == CUDA_SUCCESS);
  }
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
}

}  // namespace
}  // namespace parkade::shim
