// The host pool: growth, blocks, give-back, and pinning that is refused.
#include "shim/pause/host_pool.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <string_view>

#include "shim/cuda/scoped_context.h"
#include "tests/unit/shim/fake_driver.h"

namespace parkade::shim {
namespace {

Deadline Soon() { return Deadline::InMs(20'000); }

Bytes TakeAll(HostPool& pool, std::vector<HostBlock>& blocks, Bytes wanted, Bytes each) {
  Bytes taken = 0;
  while (taken < wanted) {
    auto block = pool.Take(std::min(each, wanted - taken), 4096, HostPool::For::kBackup, Soon());
    REQUIRE(block.ok());
    REQUIRE(reinterpret_cast<uintptr_t>(block->memory()) % 4096 == 0);
    memset(block->memory(), int(blocks.size()), block->bytes());
    taken += block->bytes();
    blocks.push_back(std::move(*block));
  }
  return taken;
}

TEST_CASE("a growth is exact, and its memory is there as it comes") {
  FakeDriver fake;
  HostPool pool(fake.driver());
  pool.BeginGrowth(70_MiB, fake.Context(0));
  std::vector<HostBlock> blocks;
  CHECK(TakeAll(pool, blocks, 70_MiB, 5_MiB) == 70_MiB);
  pool.EndGrowth();
  CHECK(pool.held() == 70_MiB);
  CHECK(pool.used() == 70_MiB);
  for (size_t i = 0; i < blocks.size(); ++i) {  // no two overlap
    CHECK(blocks[i].memory()[0] == char(i));
    CHECK(blocks[i].memory()[blocks[i].bytes() - 1] == char(i));
  }
  blocks.clear();
  CHECK(pool.used() == 0);
  pool.BeginGrowth(70_MiB, fake.Context(0));  // all there already
  pool.EndGrowth();
  CHECK(pool.held() == 70_MiB);
}

TEST_CASE("freed blocks grow together again") {
  FakeDriver fake;
  HostPool pool(fake.driver());
  pool.BeginGrowth(8_MiB, fake.Context(0));
  std::vector<HostBlock> blocks;
  TakeAll(pool, blocks, 8_MiB, 1_MiB);
  pool.EndGrowth();
  for (const size_t i : {3u, 1u, 2u, 7u, 0u, 5u, 6u, 4u}) blocks[i] = HostBlock();
  auto whole = pool.Take(8_MiB, 8_MiB, HostPool::For::kBackup, Soon());
  REQUIRE(whole.ok());
  CHECK(whole->bytes() == 8_MiB);
  CHECK(pool.held() == 8_MiB);
}

TEST_CASE("without a growth a block is made when it is asked for") {
  FakeDriver fake;
  FakeDriver::MakeCurrent(fake.Context(0));
  HostPool pool(fake.driver());
  auto block = pool.Take(5000 * 4096, 5000 * 4096, HostPool::For::kBackup, Soon());
  REQUIRE(block.ok());
  CHECK(pool.held() == RoundUp(5000 * 4096, 2_MiB));
}

TEST_CASE("release gives back what holds no block") {
  FakeDriver fake;
  HostPool pool(fake.driver());
  pool.BeginGrowth(64_MiB, fake.Context(0));
  std::vector<HostBlock> blocks;
  TakeAll(pool, blocks, 64_MiB, 8_MiB);
  blocks.clear();
  pool.EndGrowth();
  CHECK(fake.held().host > 1);
  auto block = pool.Take(4096, 4096, HostPool::For::kBackup, Soon());
  REQUIRE(block.ok());
  pool.Release();
  CHECK(fake.held().host == 1);
  CHECK(pool.held() < 64_MiB);
  *block = HostBlock();
  pool.Release();
  CHECK(pool.held() == 0);
  CHECK(fake.held().host == 0);
  CHECK(fake.mistakes() == 0);
}

TEST_CASE("pinning that is refused once is tried with smaller parts") {
  FakeDriver fake;
  HostPool pool(fake.driver());
  fake.Fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY);
  pool.BeginGrowth(16_MiB, fake.Context(0));
  std::vector<HostBlock> blocks;
  TakeAll(pool, blocks, 16_MiB, 4_MiB);
  pool.EndGrowth();
  CHECK(pool.held() == 16_MiB);
  CHECK(pool.pinned() == 16_MiB);
  CHECK_FALSE(pool.refusal().has_value());
}

TEST_CASE("memory that cannot be pinned is pageable, until pinning works again") {
  FakeDriver fake;
  FakeDriver::MakeCurrent(fake.Context(0));
  HostPool pool(fake.driver());
  fake.Fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, 1'000'000);
  pool.BeginGrowth(16_MiB, fake.Context(0));
  std::vector<HostBlock> blocks;
  TakeAll(pool, blocks, 16_MiB, 4_MiB);
  pool.EndGrowth();
  CHECK(pool.held() == 16_MiB);
  CHECK(pool.pinned() == 0);
  for (const HostBlock& block : blocks) CHECK_FALSE(block.pinned());
  REQUIRE(pool.refusal().has_value());
  CHECK(pool.refusal()->code == Code::kResourceExhausted);
  CHECK(std::string_view(pool.refusal()->what).find("pinning") != std::string_view::npos);
  const int tries = fake.Calls("cuMemHostRegister");
  TakeAll(pool, blocks, 4_MiB, 4_MiB);  // not tried for every block
  CHECK(fake.Calls("cuMemHostRegister") == tries);
  fake.FaultPending("cuMemHostRegister");
  pool.BeginGrowth(0, fake.Context(0));  // also what holds blocks
  pool.EndGrowth();
  CHECK(pool.pinned() == pool.held());
  blocks.clear();
  pool.Release();
  CHECK(fake.held().host == 0);
  CHECK(fake.mistakes() == 0);
}

TEST_CASE("what is still pinned and free when pinning is refused is kept for stages") {
  FakeDriver fake;
  FakeDriver::MakeCurrent(fake.Context(0));
  HostPool pool(fake.driver());
  REQUIRE(pool.Take(12_MiB, 12_MiB, HostPool::For::kBackup, Soon()).ok());  // and given back
  fake.Fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, 1'000'000);
  const auto large = pool.Take(16_MiB, 16_MiB, HostPool::For::kBackup, Soon());
  REQUIRE(large.ok());
  std::vector<HostBlock> blocks;
  TakeAll(pool, blocks, 20_MiB, 4_MiB);
  CHECK(std::none_of(blocks.begin(), blocks.end(), [](auto& block) { return block.pinned(); }));
  auto stage = pool.Take(4_MiB, 4_MiB, HostPool::For::kStage, Soon());
  REQUIRE(stage.ok());
  CHECK(stage->pinned());
  fake.FaultPending("cuMemHostRegister");
}

// Address space that is not there.
Result<char*> NoMemory(Bytes bytes) {
  return MakeError(Code::kResourceExhausted, "HOST_MEMORY", "mapping %llu MiB",
                   (unsigned long long)bytes >> 20);
}

TEST_CASE("memory that is missing is said, by a growth and by a block of its own") {
  FakeDriver fake;
  FakeDriver::MakeCurrent(fake.Context(0));
  HostPool pool(fake.driver(), NoMemory);
  const auto alone = pool.Take(4_MiB, 4096, HostPool::For::kBackup, Soon());
  REQUIRE_FALSE(alone.ok());
  CHECK(std::string_view(alone.error().reason) == "HOST_MEMORY");
  pool.BeginGrowth(64_MiB, fake.Context(0));
  const auto refused = pool.Take(4_MiB, 4096, HostPool::For::kBackup, Soon());
  pool.EndGrowth();
  REQUIRE_FALSE(refused.ok());
  CHECK(std::string_view(refused.error().reason) == "HOST_MEMORY");
  CHECK(pool.held() == 0);
}

TEST_CASE("what the application may not lock is MEMLOCK, when it locks all that it maps") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return;  // whose runtimes make mlockall do nothing
#endif
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) _exit(77);
    if (getuid() == 0 && setuid(65534) != 0) _exit(77);  // root may lock as much as it likes
    if (mlockall(MCL_FUTURE) != 0) _exit(77);
    const auto memory = MapPages(8_MiB);
    if (memory.ok()) _exit(1);
    _exit(std::string_view(memory.error().reason) == "MEMLOCK" ? 0 : 2);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    WARN("locking memory is refused here");
    return;
  }
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace parkade::shim
