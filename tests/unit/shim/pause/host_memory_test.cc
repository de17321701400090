// Host memory that is not as one would like it: not pinned, not there, not to be touched.
#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

using wire::Policy;
using wire::ProcessState;

constexpr int kForEver = 1'000'000;

std::string TextOf(const ParkedProcess& p) {
  auto header = wire::ReadLedgerHeader(p.ledger->fd());
  REQUIRE(header.ok());
  return std::string(ReadText(header->text));
}

int CountIn(const std::string& text, std::string_view what) {
  int count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++count;
  return count;
}

void PauseAndResume(ParkedProcess& p, Policy policy, const EvictionPlan& plan = {}) {
  const auto paused = p.Pause(policy, plan);
  INFO(paused.result.error().what);
  REQUIRE(paused.result.ok());
  REQUIRE(p.Is(ProcessState::kPaused));
  REQUIRE(p.fake.handle_bytes() == 0);
  REQUIRE(p.Resume().result.ok());
  REQUIRE(p.Runs());
  REQUIRE(p.BytesRight());
  REQUIRE(p.OnlyKept());
  REQUIRE(p.fake.mistakes() == 0);
}

TEST_CASE("without pinning bytes go to pageable memory, and that is said once with the cause") {
  for (const Policy policy : {Policy::kHost, Policy::kAuto, Policy::kDisk}) {
    ParkedProcess p({.devices = 2});
    p.Allocate(40_MiB, "default", 0);
    p.Allocate(36_MiB + 8192, "default", 1);
    p.Allocate(5000, "default", 1);
    p.fake.Fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, kForEver);
    for (int cycle = 0; cycle < 3; ++cycle) {
      PauseAndResume(p, policy);
      CHECK(p.pool.pinned() == 0);
    }
    const std::string text = TextOf(p);
    INFO(text);
    CHECK(CountIn(text, "not pinned, which is slower: pinning ") == 1);
    CHECK(CountIn(text, " MiB of host memory: ") == 1);
    p.freezer.ReleaseHost();
    CHECK(p.pool.held() == 0);
    p.fake.FaultPending("cuMemHostRegister");
    PauseAndResume(p, policy);
    CHECK(p.pool.pinned() == p.pool.held());
  }
}

TEST_CASE("pinning may end at any slice: what is pinned is used, the rest is pageable") {
  int tried = 0;
  for (int n = 1; n < 12; ++n) {
    INFO("pinning fails from number " << n);
    ParkedProcess p;
    p.Allocate(60_MiB);
    p.Allocate(34_MiB);
    p.Allocate(3_MiB);
    p.fake.Fail("cuMemHostRegister", n, CUDA_ERROR_OUT_OF_MEMORY, kForEver);
    for (int cycle = 0; cycle < 2; ++cycle) PauseAndResume(p, Policy::kHost);
    ++tried;
    p.fake.FaultPending("cuMemHostRegister");
  }
  printf("pinning that ends: %d places\n", tried);
}

// Copies with their host side, to see which way bytes took.
struct Copies {
  std::vector<std::pair<const char*, size_t>> to;
  decltype(&cuMemcpyDtoHAsync_v2) real = nullptr;
} copies;

CUresult RecordedCopy(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  copies.to.push_back({static_cast<const char*>(to), bytes});
  return copies.real(to, from, bytes, stream);
}

TEST_CASE("on its way to pageable memory a chunk passes through what is pinned") {
  ParkedProcess p;
  p.Allocate(40_MiB);
  p.Allocate(6_MiB + 4096);
  copies = {{}, p.driver.memcpy_dtoh_async};
  p.driver.memcpy_dtoh_async = RecordedCopy;
  // 16 MiB that are pinned, and as much as is needed that is not.
  REQUIRE(p.pool.Take(16_MiB, 16_MiB, HostPool::For::kStage, Deadline::InMs(5000)).ok());
  p.fake.Fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, kForEver);
  REQUIRE(p.pool.Take(64_MiB, 64_MiB, HostPool::For::kBackup, Deadline::InMs(5000)).ok());
  REQUIRE(p.pool.pinned() == 16_MiB);
  const size_t maps = FaultyMemory::maps();
  const auto paused = p.Pause(Policy::kHost);
  REQUIRE(paused.result.ok());
  CHECK(paused.stats.host_bytes == 46_MiB + 4096);
  CHECK(FaultyMemory::maps() == maps);
  REQUIRE_FALSE(copies.to.empty());
  const auto lowest = std::min_element(copies.to.begin(), copies.to.end())->first;
  for (const auto& [to, bytes] : copies.to) {
    CHECK(bytes <= 4_MiB);
    CHECK(to + bytes <= lowest + 16_MiB);
  }
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
  CHECK(p.OnlyKept());
  PauseAndResume(p, Policy::kHost);
  p.fake.FaultPending("cuMemHostRegister");
}

TEST_CASE("memory that is missing: auto goes to disk, host is refused with every byte back") {
  ParkedProcess p;
  p.Allocate(40_MiB);
  p.Allocate(34_MiB);
  EvictionPlan stage;
  stage.chunk_bytes = 16_MiB;
  PauseAndResume(p, Policy::kDisk, stage);  // has its 16 MiB from now on
  FaultyMemory::FailFrom(1);
  const auto refused = p.Pause(Policy::kHost);
  REQUIRE_FALSE(refused.result.ok());
  CHECK(refused.result.error().code == Code::kResourceExhausted);
  CHECK(std::string_view(refused.result.error().reason) == "HOST_MEMORY");
  CHECK(p.Runs());
  CHECK(p.BytesRight());
  CHECK(p.OnlyKept());
  EvictionPlan both = stage;
  both.disk_bytes = 80_MiB;
  both.host_bytes = 8_MiB;
  const auto paused = p.Pause(Policy::kAuto, both);
  INFO(paused.result.error().what);
  REQUIRE(paused.result.ok());
  CHECK(paused.stats.disk_bytes + paused.stats.host_bytes == 74_MiB);
  CHECK(paused.stats.disk_bytes >= 66_MiB);
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
}

TEST_CASE("a resume without memory for its stage stays paused, and the next one works") {
  ParkedProcess p;
  p.Allocate(40_MiB);
  REQUIRE(p.Pause(Policy::kDisk).result.ok());
  p.freezer.ReleaseHost();
  FaultyMemory::FailFrom(1);
  const auto refused = p.Resume();
  REQUIRE_FALSE(refused.result.ok());
  CHECK(std::string_view(refused.result.error().reason) == "HOST_MEMORY");
  CHECK(p.Is(ProcessState::kPaused));
  CHECK(p.fake.handle_bytes() == 0);
  FaultyMemory::FailFrom(0);
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
}

}  // namespace
}  // namespace parkade::shim
