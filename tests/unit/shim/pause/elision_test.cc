// Bytes that a pause need not move: those that have not changed since the last one, and patterns.
#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>

#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

using wire::Elision;
using wire::Policy;
using wire::ProcessState;

const Policy kTiers[] = {Policy::kHost, Policy::kDisk};

EvictionPlan PlanOf(Policy policy, std::span<const wire::TagPolicy> tags = {}) {
  EvictionPlan plan;
  plan.policy = policy;
  plan.tags = tags;
  plan.chunk_bytes = 16_MiB;
  return plan;
}

struct Process : ParkedProcess {
  explicit Process(FakeDriver::Options options = {}) : ParkedProcess(options) {
    files_in_memory = true;
  }

  // One file for all pauses, as a daemon gives it.
  Freezer::Outcome PauseWith(EvictionPlan plan) {
    if (!file) file = MemoryFile(64_MiB);
    Fd files[] = {Fd(dup(file.get()))};
    if (plan.policy != Policy::kHost) {
      plan.disk_bytes = 64_MiB;
      plan.files = files;
    }
    if (plan.policy != Policy::kDisk) plan.host_bytes = 4_GiB;
    REQUIRE(Prepare().result.ok());
    auto outcome = freezer.Commit(2, plan);
    REQUIRE(outcome.result.ok());
    REQUIRE(Is(ProcessState::kPaused));
    return outcome;
  }
  wire::Stats Cycle(Policy policy, Elision elision = Elision::kHash) {
    EvictionPlan plan = PlanOf(policy);
    plan.elision = elision;
    const wire::Stats stats = PauseWith(plan).stats;
    REQUIRE(Resume().result.ok());
    REQUIRE(BytesRight());
    return stats;
  }
  // A pause and a resume after which every block has a backup.
  void Once(Policy policy) {
    const wire::Stats stats = Cycle(policy);
    REQUIRE(stats.elided_bytes == 0);
  }
  wire::LedgerHeader Ledger() const { return *wire::ReadLedgerHeader(ledger->fd()); }
  // Another word in a buffer than the one that belongs there.
  void Change(size_t buffer, Bytes at) {
    auto* words = reinterpret_cast<uint32_t*>(app[buffer].ptr);
    changed.push_back({&words[at / 4], words[at / 4]});
    words[at / 4] ^= 0x10000;
  }
  // Puts back what Change has changed, having looked at it.
  void TakeBack() {
    for (const auto& [word, was] : changed) {
      CHECK(*word == (was ^ 0x10000));
      *word = was;
    }
    changed.clear();
  }

  Fd file;
  std::vector<std::pair<uint32_t*, uint32_t>> changed;
};

TEST_CASE("what has not changed is neither copied nor written, to whichever tier") {
  for (const Policy policy : kTiers) {
    Process p({.devices = 2});
    p.Allocate(40_MiB, "large", 0);
    p.Allocate(3_MiB, "slab", 1);
    p.Allocate(5000, "small", 0);
    p.MapOwn(0, 2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    p.MapOwn(1, 1, CU_MEM_ACCESS_FLAGS_PROT_READ);
    p.Once(policy);
    const int copies = p.fake.Calls("cuMemcpyDtoHAsync");
    const int completions = FaultyEngine::plan.completions;
    const EvictionPlan plan = PlanOf(policy);
    const wire::Stats stats = p.PauseWith(plan).stats;
    CHECK(stats.host_bytes + stats.disk_bytes == 0);
    CHECK(stats.elided_bytes == 47_MiB + 8192);
    CHECK(p.fake.Calls("cuMemcpyDtoHAsync") == copies);
    CHECK(FaultyEngine::plan.completions == completions);
    REQUIRE(p.Resume().result.ok());
    CHECK(p.BytesRight());
    CHECK(p.fake.mistakes() == 0);
  }
}

TEST_CASE("of what has changed the blocks move that it lies in, into their old places") {
  for (const Policy policy : kTiers) {
    Process p;
    p.Allocate(40_MiB, "large");
    p.Allocate(6_MiB, "slab");
    p.Once(policy);
    const Bytes held = p.pool.held();
    p.Change(0, 4_MiB);
    p.Change(0, 39_MiB);
    p.Change(1, 2_MiB - 4);
    const EvictionPlan plan = PlanOf(policy);
    const wire::Stats stats = p.PauseWith(plan).stats;
    CHECK(stats.host_bytes + stats.disk_bytes == 6_MiB);
    CHECK(stats.elided_bytes == 40_MiB);
    CHECK(p.pool.held() == held);
    REQUIRE(p.Resume().result.ok());
    p.TakeBack();
    CHECK(p.BytesRight());
    // And back again: the backup is that of the last pause, not of the first.
    CHECK(p.Cycle(policy).elided_bytes == 40_MiB);
    CHECK(p.Cycle(policy).elided_bytes == 46_MiB);
  }
}

TEST_CASE(
    "zeroes and patterns of 4, 8 and 16 bytes take no place, and are filled on the way back") {
  for (const Policy policy : kTiers) {
    Process p;
    p.Allocate(64_MiB, "large");
    const uint32_t words[] = {0, 0, 0, 0, 7, 7, 7, 7, 7, 8, 7, 8, 1, 2, 3, 4};
    auto* bytes = reinterpret_cast<char*>(p.app[0].ptr);
    for (Bytes at = 0; at < 64_MiB; at += 16) memcpy(bytes + at, &words[at / 16_MiB * 4], 16);
    std::string expected(bytes, 64_MiB);
    p.app.clear();
    const EvictionPlan plan = PlanOf(policy);
    const auto paused = p.PauseWith(plan);
    CHECK(paused.stats.elided_bytes == 64_MiB);
    CHECK(paused.stats.host_bytes + paused.stats.disk_bytes == 0);
    CHECK(p.Ledger().host_backup_bytes + p.Ledger().disk_backup_bytes == 0);
    const auto resumed = p.Resume();
    REQUIRE(resumed.result.ok());
    CHECK(resumed.stats.elided_bytes == 64_MiB);
    CHECK(memcmp(bytes, expected.data(), 64_MiB) == 0);
    CHECK(p.fake.Calls("cuMemcpyHtoDAsync") == 2);  // the patterns that are no word of 4 bytes

    // A pattern that becomes another one, and one that is none any more.
    memset(bytes, 0x11, 2_MiB);
    bytes[20_MiB] ^= 1;
    expected.assign(bytes, 64_MiB);
    const auto again = p.PauseWith(plan);
    CHECK(again.stats.elided_bytes == 62_MiB);
    REQUIRE(p.Resume().result.ok());
    CHECK(memcmp(bytes, expected.data(), 64_MiB) == 0);
    bytes[20_MiB] ^= 1;
    CHECK(p.PauseWith(plan).stats.elided_bytes == 64_MiB);
    CHECK(p.Ledger().host_backup_bytes + p.Ledger().disk_backup_bytes == 0);
    REQUIRE(p.Resume().result.ok());
  }
}

TEST_CASE("kept backups are shown, counted once, and given back when they are asked for") {
  Process p;
  p.Allocate(40_MiB, "large");
  p.Once(Policy::kHost);
  CHECK(p.Ledger().host_backup_bytes == 0);
  CHECK(p.Ledger().host_retained_bytes == 40_MiB);
  CHECK(p.Ledger().host_pool_bytes >= 40_MiB);
  p.PauseWith(PlanOf(Policy::kHost));
  CHECK(p.Ledger().host_backup_bytes == 40_MiB);
  CHECK(p.Ledger().host_retained_bytes == 0);
  // A paused process needs its backup.
  p.freezer.ReleaseHost();
  CHECK(p.Ledger().host_backup_bytes == 40_MiB);
  REQUIRE(p.Resume().result.ok());
  CHECK(p.BytesRight());
  p.freezer.ReleaseHost();
  CHECK(p.Ledger().host_retained_bytes == 0);
  CHECK(p.Ledger().host_pool_bytes == 0);
  CHECK(p.pool.held() == 0);
  CHECK(p.Cycle(Policy::kHost).elided_bytes == 0);
  p.Once(Policy::kDisk);
  CHECK(p.Ledger().disk_retained_bytes == 40_MiB);
  p.freezer.ReleaseHost();  // takes nothing from the disk
  CHECK(p.Cycle(Policy::kDisk).elided_bytes == 40_MiB);
}

TEST_CASE("memory that was freed takes its backup along, also for what comes to its addresses") {
  for (const Policy policy : kTiers) {
    Process p;
    const CUdeviceptr ptr = p.Allocate(40_MiB, "large");
    p.Once(policy);
    CUresult freed;
    REQUIRE(p.heap.Free(ptr, &freed));
    CHECK(p.Ledger().host_retained_bytes + p.Ledger().disk_retained_bytes == 0);
    CHECK(p.pool.used() == 0);
    p.app.clear();
    p.Allocate(40_MiB, "large");  // with the very same bytes
    const wire::Stats stats = p.Cycle(policy);
    CHECK(stats.elided_bytes == 0);
    CHECK(stats.host_bytes + stats.disk_bytes == 40_MiB);
  }
}

TEST_CASE("a slab whose allocations come and go moves the windows that have changed") {
  for (const Policy policy : kTiers) {
    Process p;
    for (int i = 0; i < 4; ++i) p.Allocate(6_MiB, "slab");
    for (int i = 0; i < 3; ++i) p.Allocate(300'000, "small");
    p.Once(policy);
    const auto free_at = [&p](size_t index) {
      CUresult freed;
      REQUIRE(p.heap.Free(p.app[index].ptr, &freed));
      p.app.erase(p.app.begin() + ptrdiff_t(index));
    };
    free_at(5);
    free_at(1);
    CHECK(p.Cycle(policy).elided_bytes == 18_MiB);
    p.Allocate(3_MiB, "slab");
    p.Allocate(200'000, "small");
    p.Cycle(policy);
    const wire::Stats stats = p.Cycle(policy);
    CHECK(stats.host_bytes + stats.disk_bytes == 0);
  }
}

TEST_CASE("with a comparison of bytes a hash alone is not believed") {
  Process p;
  p.Allocate(40_MiB, "large");
  p.Allocate(4_MiB, "zero");
  memset(reinterpret_cast<void*>(p.app[1].ptr), 0, 4_MiB);
  p.app.pop_back();
  CHECK(p.Cycle(Policy::kHost).elided_bytes == 4_MiB);
  CHECK(p.Cycle(Policy::kHost, Elision::kBytes).elided_bytes == 44_MiB);
  // A backup that has the right digest and other bytes, as after a collision.
  const std::string page(reinterpret_cast<const char*>(p.app[0].ptr) + 8_MiB, 4096);
  for (char* where : FaultyMemory::Find(page.data(), page.size())) *where ^= 1;
  const wire::Stats stats = p.Cycle(Policy::kHost, Elision::kBytes);
  CHECK(stats.host_bytes == 2_MiB);
  CHECK(stats.elided_bytes == 42_MiB);
}

TEST_CASE("what is in a file cannot be compared on the GPU: it is written anew") {
  Process p;
  p.Allocate(40_MiB, "large");
  p.Once(Policy::kDisk);
  CHECK(p.Cycle(Policy::kDisk, Elision::kBytes).disk_bytes == 40_MiB);
}

TEST_CASE("without elision everything moves and nothing is kept") {
  for (const Policy policy : kTiers) {
    Process p;
    p.Allocate(40_MiB, "large");
    p.Allocate(4_MiB, "zero");
    memset(reinterpret_cast<void*>(p.app[1].ptr), 0, 4_MiB);
    p.app.pop_back();
    for (int i = 0; i < 2; ++i) {
      const wire::Stats stats = p.Cycle(policy, Elision::kOff);
      CHECK(stats.host_bytes + stats.disk_bytes == 44_MiB);
      CHECK(stats.elided_bytes == 0);
      CHECK(p.Ledger().host_retained_bytes + p.Ledger().disk_retained_bytes == 0);
    }
  }
}

TEST_CASE("where the GPU takes no kernel nothing is elided or kept, which is said once") {
  Process p({.kernels = false});
  p.Allocate(40_MiB, "large");
  for (int i = 0; i < 3; ++i) {
    const wire::Stats stats = p.Cycle(Policy::kHost);
    CHECK(stats.host_bytes == 40_MiB);
    CHECK(stats.elided_bytes == 0);
  }
  CHECK(p.Ledger().host_retained_bytes == 0);
  const std::string text(ReadText(p.Ledger().text));
  const size_t said = text.find("bytes that have not changed are moved like the others");
  REQUIRE(said != std::string::npos);
  CHECK(text.find("bytes that have not changed", said + 1) == std::string::npos);
}

TEST_CASE("a kernel that cannot be loaded at one pause makes that one full") {
  for (const Policy policy : kTiers) {
    Process p;
    p.Allocate(40_MiB, "large");
    p.Once(policy);
    const auto lose = [&p] {
      p.contexts.Remove(p.fake.Context(0));
      p.contexts.Add(p.fake.Context(0), 0);  // so that no kernel is kept
      p.fake.Fail("cuModuleLoadData", 1, CUDA_ERROR_OUT_OF_MEMORY, 2);
    };
    lose();
    CHECK(p.Cycle(policy).elided_bytes == 0);
    CHECK(p.Cycle(policy).elided_bytes == 40_MiB);
    // Fills need no kernel.
    memset(reinterpret_cast<void*>(p.app[0].ptr), 0x77, 40_MiB);
    p.app.clear();
    CHECK(p.PauseWith(PlanOf(policy)).stats.elided_bytes == 40_MiB);
    lose();
    REQUIRE(p.Resume().result.ok());
  }
}

TEST_CASE("a file that somebody has written to or replaced is not believed to hold anything") {
  Process p;
  p.Allocate(40_MiB, "large");
  p.Once(Policy::kDisk);
  SECTION("written to") {
    const timespec now[] = {{0, UTIME_OMIT}, {12345, 678}};
    REQUIRE(futimens(p.file.get(), now) == 0);
  }
  SECTION("replaced") { p.file = MemoryFile(64_MiB); }
  SECTION("cut") {
    REQUIRE(ftruncate(p.file.get(), 0) == 0);
    REQUIRE(ftruncate(p.file.get(), 64_MiB) == 0);
  }
  CHECK(p.Cycle(Policy::kDisk).disk_bytes == 40_MiB);
  CHECK(p.Cycle(Policy::kDisk).elided_bytes == 40_MiB);
}

TEST_CASE("a range that stayed in HBM loses its place in a file that others have written since") {
  Process p;
  p.Allocate(20_MiB, "stays");
  p.Allocate(40_MiB, "moves");
  p.Once(Policy::kDisk);
  const wire::TagPolicy keep[] = {ParkedProcess::Tag("stays", Policy::kKeep)};
  p.Change(1, 0);
  CHECK(p.PauseWith(PlanOf(Policy::kDisk, keep)).stats.disk_bytes == 2_MiB);
  REQUIRE(p.Resume().result.ok());
  p.TakeBack();
  const wire::Stats stats = p.Cycle(Policy::kDisk);
  CHECK(stats.elided_bytes == 38_MiB);
  CHECK(stats.disk_bytes == 22_MiB);
}

TEST_CASE("discarded bytes have no backup left to come back from") {
  Process p;
  p.Allocate(40_MiB, "cache");
  p.Once(Policy::kHost);
  const wire::TagPolicy discard[] = {ParkedProcess::Tag("cache", Policy::kDiscard)};
  const auto paused = p.PauseWith(PlanOf(Policy::kHost, discard));
  CHECK(paused.stats.discarded_bytes == 40_MiB);
  CHECK(p.Ledger().host_backup_bytes == 0);
  const auto resumed = p.Resume();
  REQUIRE(resumed.result.ok());
  CHECK(resumed.stats.host_bytes == 0);
}

}  // namespace
}  // namespace parkade::shim
