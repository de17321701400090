// The host pool: growth, blocks, give-back, and pinning that is refused.
#include "shim/pause/host_pool.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "shim/cuda/scoped_context.h"
#include "tests/unit/shim/fake_driver.h"

namespace parkade::shim {
namespace {

Deadline Soon() { return Deadline::InMs(20'000); }

Bytes TakeAll(HostPool& pool, std::vector<HostBlock>& blocks, Bytes wanted, Bytes each) {
  Bytes taken = 0;
  while (taken < wanted) {
    auto block = pool.Take(std::min(each, wanted - taken), 4096, Soon());
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
  auto whole = pool.Take(8_MiB, 8_MiB, Soon());
  REQUIRE(whole.ok());
  CHECK(whole->bytes() == 8_MiB);
  CHECK(pool.held() == 8_MiB);
}

TEST_CASE("without a growth a block is made when it is asked for") {
  FakeDriver fake;
  FakeDriver::MakeCurrent(fake.Context(0));
  HostPool pool(fake.driver());
  auto block = pool.Take(5000 * 4096, 5000 * 4096, Soon());
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
  auto block = pool.Take(4096, 4096, Soon());
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

TEST_CASE("pinning that is refused is tried with smaller slices, then said") {
  FakeDriver fake;
  FakeDriver::MakeCurrent(fake.Context(0));
  HostPool pool(fake.driver());
  fake.Fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY);
  pool.BeginGrowth(16_MiB, fake.Context(0));
  std::vector<HostBlock> blocks;
  TakeAll(pool, blocks, 16_MiB, 4_MiB);
  pool.EndGrowth();
  CHECK(pool.held() == 16_MiB);

  fake.Fail("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, 1'000'000);
  pool.BeginGrowth(16_MiB, fake.Context(0));
  const auto refused = pool.Take(4_MiB, 4096, Soon());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == Code::kResourceExhausted);
  pool.EndGrowth();
  CHECK(pool.held() == 16_MiB);
}

}  // namespace
}  // namespace parkade::shim
