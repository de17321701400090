// A pause to files keeps as many requests under way as suits the disk, and no more: by counting.
#include "shim/pause/disk_stage.h"

#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

using wire::Policy;

constexpr Bytes kBlock = 2_MiB;

EvictionPlan Plan(uint32_t depth, Bytes chunk_bytes = 64_MiB) {
  EvictionPlan plan;
  plan.elision = wire::Elision::kOff;
  plan.chunk_bytes = chunk_bytes;
  plan.disk = {kBlock, depth, false};
  return plan;
}

void RequireRoundTrip(ParkedProcess& p, const EvictionPlan& plan) {
  REQUIRE(p.Pause(Policy::kDisk, plan).result.ok());
  REQUIRE(p.Resume().result.ok());
  REQUIRE(p.Runs());
  REQUIRE(p.BytesRight());
}

TEST_CASE("the disk has its depth of requests, out and in, until the last few") {
  for (const uint32_t depth : {1u, 3u, 8u}) {
    INFO(depth << " deep");
    ParkedProcess p;
    p.files_in_memory = true;
    p.Allocate(40_MiB);
    for (const bool out : {true, false}) {
      INFO((out ? "out" : "in"));
      FaultyEngine::plan.Reset();
      REQUIRE((out ? p.Pause(Policy::kDisk, Plan(depth)) : p.Resume()).result.ok());
      CHECK(FaultyEngine::plan.deepest <= depth);
      if (!out) CHECK(FaultyEngine::plan.deepest == depth);  // on the way out the GPU may be slower
      CHECK(FaultyEngine::plan.completions == int(40_MiB / kBlock));
      // Whoever waits for the disk has given it all that it takes, but for the end.
      CHECK(FaultyEngine::plan.shallow_waits < int(depth));
    }
    CHECK(p.BytesRight());
  }
}

TEST_CASE("a small stage keeps the disk as busy as its blocks allow") {
  ParkedProcess p;
  p.files_in_memory = true;
  p.Allocate(40_MiB);
  RequireRoundTrip(p, Plan(64, 4 * kBlock));
  CHECK(FaultyEngine::plan.deepest <= 4);
  CHECK(FaultyEngine::plan.deepest >= 2);
  CHECK(p.pool.held() <= 4 * kBlock);
}

TEST_CASE("a stage takes no more memory than was made for it, however large its blocks should be") {
  for (const Bytes stage : {38_MiB, 30_MiB, 96_MiB}) {
    ParkedProcess p;
    FakeDriver::MakeCurrent(p.fake.Context(0));
    p.pool.BeginGrowth({{p.fake.Context(0), stage}});
    const auto blocks = StageBlocks::Make(p.pool, stage, {.most = 32_MiB});
    p.pool.EndGrowth();
    REQUIRE(blocks.ok());
    CHECK((*blocks)->size() >= 3);
    CHECK(p.pool.held() <= stage);
  }
}

TEST_CASE("a stage makes do with two blocks where memory lies scattered") {
  ParkedProcess p;
  FakeDriver::MakeCurrent(p.fake.Context(0));
  p.pool.BeginGrowth({{p.fake.Context(0), 16_MiB}});
  std::vector<HostBlock> taken;  // every second MiB of it
  for (int i = 0; i < 16; ++i) {
    auto block = p.pool.Take(1_MiB, 1_MiB, HostPool::For::kBackup, Deadline::InMs(5000));
    REQUIRE(block.ok());
    taken.push_back(std::move(*block));
  }
  p.pool.EndGrowth();
  for (size_t i = 0; i < taken.size(); i += 2) taken[i] = HostBlock();
  const auto blocks = StageBlocks::Make(p.pool, 8_MiB, {.most = 2_MiB});
  REQUIRE(blocks.ok());
  CHECK((*blocks)->size() == 2);
  CHECK(p.pool.held() == 20_MiB);
}

TEST_CASE("bytes are striped over files of different sizes and come back from all") {
  ParkedProcess p;
  p.file_count = 3;
  p.Allocate(40_MiB);
  RequireRoundTrip(p, Plan(4));
}

TEST_CASE("registered memory is used where the disk is faster with it") {
  ParkedProcess p;
  p.Allocate(8_MiB);
  EvictionPlan plan = Plan(4);
  RequireRoundTrip(p, plan);
  CHECK(FaultyEngine::plan.registered == 0);
  plan.disk.registers_memory = true;
  RequireRoundTrip(p, plan);
  alignas(4096) static char page[4096];
  const std::span<char> memory[] = {page};
  const bool registers = FaultyEngine::Make(1).engine->UseMemory(memory);
  CHECK((FaultyEngine::plan.registered > 0) == registers);
}

TEST_CASE("what a file system caches in spite of O_DIRECT is kept small, and that is said once") {
  for (const Bytes chunk : {16_MiB, 256_MiB}) {
    ParkedProcess p;
    p.Allocate(160_MiB);
    FaultyEngine::plan.caches = true;
    EvictionPlan plan = Plan(256, chunk);
    plan.disk.block = 4_MiB;
    for (int round = 0; round < 2; ++round) RequireRoundTrip(p, plan);
    CHECK(FaultyEngine::plan.most_cached > 0);
    CHECK(FaultyEngine::plan.most_cached < 64_MiB);
    CHECK(CachedBytes(p.backups[0].get(), 0, 160_MiB) < Bytes(8_MiB));
    const auto header = wire::ReadLedgerHeader(p.ledger->fd());
    REQUIRE(header.ok());
    const std::string text(ReadText(header->text));
    INFO(text);
    const size_t said = text.find("through the page cache");
    REQUIRE(said != text.npos);
    CHECK(text.find("through the page cache", said + 1) == text.npos);
  }
}

}  // namespace
}  // namespace parkade::shim
