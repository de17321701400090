// The host pool: growth, blocks, give-back, and pinning that is refused.
#include "shim/pause/host_pool.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <string>
#include <string_view>
#include <utility>

#include "shim/cuda/scoped_context.h"
#include "tests/unit/emulated.h"
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
  pool.BeginGrowth({{fake.Context(0), 70_MiB}});
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
  pool.BeginGrowth({{fake.Context(0), 70_MiB}});  // all there already
  pool.EndGrowth();
  CHECK(pool.held() == 70_MiB);
}

TEST_CASE("freed blocks grow together again") {
  FakeDriver fake;
  HostPool pool(fake.driver());
  pool.BeginGrowth({{fake.Context(0), 8_MiB}});
  std::vector<HostBlock> blocks;
  TakeAll(pool, blocks, 8_MiB, 1_MiB);
  pool.EndGrowth();
  for (const size_t i : {3u, 1u, 2u, 7u, 0u, 5u, 6u, 4u}) blocks[i] = HostBlock();
  auto whole = pool.Take(8_MiB, 8_MiB, HostPool::For::kBackup, Soon());
  REQUIRE(whole.ok());
  CHECK(whole->bytes() == 8_MiB);
  CHECK(pool.held() == 8_MiB);
}

TEST_CASE("a block that was split is joined again, and goes back whole") {
  FakeDriver fake;
  FakeDriver::MakeCurrent(fake.Context(0));
  HostPool pool(fake.driver());
  auto rest = pool.Take(8_MiB, 8_MiB, HostPool::For::kBackup, Soon());
  REQUIRE(rest.ok());
  HostBlock first = rest->Split(2_MiB), second = rest->Split(1_MiB);
  first.Join(std::move(second));
  CHECK(first.bytes() == 3_MiB);
  CHECK_FALSE(second);
  CHECK(pool.used() == 8_MiB);
  first = HostBlock();
  CHECK(pool.used() == 5_MiB);
  *rest = HostBlock();
  CHECK(pool.used() == 0);
  CHECK(pool.Take(8_MiB, 8_MiB, HostPool::For::kBackup, Soon()).ok());
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
  pool.BeginGrowth({{fake.Context(0), 64_MiB}});
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
  pool.BeginGrowth({{fake.Context(0), 16_MiB}});
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
  pool.BeginGrowth({{fake.Context(0), 16_MiB}});
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
  pool.BeginGrowth({{fake.Context(0), 0}});  // also what holds blocks
  pool.EndGrowth();
  CHECK(pool.pinned() == pool.held());
  blocks.clear();
  pool.Release();
  CHECK(fake.held().host == 0);
  CHECK(fake.mistakes() == 0);
}

TEST_CASE("two GPUs that find no memory make some, each for itself") {
  FakeDriver fake({.devices = 2});
  const auto take = [&fake](HostPool& pool, int device) {
    FakeDriver::MakeCurrent(fake.Context(device));
    std::vector<HostBlock> blocks;
    for (int i = 0; i < 20; ++i) {
      auto block = pool.Take(2_MiB, 2_MiB, HostPool::For::kBackup, Soon());
      if (!block.ok()) return false;
      blocks.push_back(std::move(*block));
    }
    return true;
  };
  for (int round = 0; round < 20; ++round) {
    HostPool pool(fake.driver());
    auto other = std::async(std::launch::async, [&] { return take(pool, 1); });
    REQUIRE(take(pool, 0));
    REQUIRE(other.get());
  }
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

TEST_CASE("a growth goes on with the needs of the next one in place of its own") {
  FakeDriver fake;
  HostPool pool(fake.driver());
  pool.BeginGrowth({{fake.Context(0), 4_GiB}});
  pool.BeginGrowth({{fake.Context(0), 64_MiB}});
  std::vector<HostBlock> blocks;
  CHECK(TakeAll(pool, blocks, 64_MiB, 8_MiB) == 64_MiB);
  pool.EndGrowth();
  // What the first one's threads were at when the second began is there as well: it counts.
  CHECK(pool.held() < 4_GiB);
  blocks.clear();
  const Bytes held = pool.held();
  pool.BeginGrowth({{fake.Context(0), held + 16_MiB}});
  blocks.clear();
  CHECK(TakeAll(pool, blocks, held + 16_MiB, 8_MiB) == held + 16_MiB);
  pool.EndGrowth();
  CHECK(pool.held() == held + 16_MiB);
}

TEST_CASE("memory is made ready to the last byte, and a growth then makes none") {
  FakeDriver fake;
  HostPool pool(fake.driver());
  pool.Warm({{fake.Context(0), 70_MiB}}, std::atomic<bool>(false));
  CHECK(pool.held() == 70_MiB);
  CHECK(pool.pinned() == 70_MiB);
  const int registered = fake.Calls("cuMemHostRegister");
  pool.BeginGrowth({{fake.Context(0), 70_MiB}});
  std::vector<HostBlock> blocks;
  CHECK(TakeAll(pool, blocks, 70_MiB, 5_MiB) == 70_MiB);
  pool.EndGrowth();
  CHECK(fake.Calls("cuMemHostRegister") == registered);
  CHECK(pool.held() == 70_MiB);
}

TEST_CASE("whoever stops the making of memory gets what is there, and a growth takes over") {
  FakeDriver fake;
  HostPool pool(fake.driver());
  pool.Warm({{fake.Context(0), 64_GiB}}, std::atomic<bool>(true));
  pool.BeginGrowth({{fake.Context(0), 256_MiB}});  // what threads are still at counts
  std::vector<HostBlock> blocks;
  CHECK(TakeAll(pool, blocks, 256_MiB, 8_MiB) == 256_MiB);
  pool.EndGrowth();
  CHECK(pool.held() <= std::max<Bytes>(256_MiB, 16 * 32_MiB));
  blocks.clear();
  pool.Release();
  CHECK(fake.held().host == 0);
}

int NodeIsDevice(const Driver&, CUdevice device) { return device; }

TEST_CASE("each GPU has memory of its own node, and of others only when that has gone") {
  FakeDriver fake({.devices = 2});
  HostPool pool(fake.driver(), MapPages, NodeIsDevice);
  pool.BeginGrowth({{fake.Context(0), 16_MiB}, {fake.Context(1), 32_MiB}});
  std::vector<HostBlock> far, near;
  FakeDriver::MakeCurrent(fake.Context(1));
  TakeAll(pool, far, 32_MiB, 4_MiB);
  FakeDriver::MakeCurrent(fake.Context(0));
  TakeAll(pool, near, 16_MiB, 4_MiB);
  pool.EndGrowth();
  CHECK(pool.held() == 48_MiB);
  const HostBlock first = std::move(near[0]);
  near.clear();
  far.clear();
  // The node's own, wherever it lies in the pool.
  for (int i = 0; i < 3; ++i) TakeAll(pool, near, 4_MiB, 4_MiB);
  FakeDriver::MakeCurrent(fake.Context(1));
  TakeAll(pool, far, 32_MiB, 4_MiB);
  CHECK(pool.held() == 48_MiB);
  // All that is free lies with the other GPU now, of which 32 MiB are enough for both.
  far.clear();
  pool.BeginGrowth({{fake.Context(0), 32_MiB}});
  FakeDriver::MakeCurrent(fake.Context(0));
  TakeAll(pool, near, 32_MiB, 4_MiB);
  pool.EndGrowth();
  CHECK(pool.held() == 48_MiB);
}

// Of a page that is present.
int PreferredNode(char* memory) {
  constexpr unsigned long kOfAddress = 2;  // MPOL_F_ADDR
  int policy = -1;
  unsigned long nodes[16] = {};
  if (syscall(SYS_get_mempolicy, &policy, nodes, 1024, memory, kOfAddress) != 0) return -2;
  return policy == 1 ? __builtin_ctzl(nodes[0]) : -1;
}

TEST_CASE(
    "the pool's memory prefers the node of its GPU; a kernel that refuses is said, and harmless") {
  FakeDriver fake({.devices = 2});
  FakeDriver::MakeCurrent(fake.Context(0));
  char* const probe = *MapPages(2_MiB);
  const bool allowed = PreferNode(probe, 2_MiB, 0).ok();
  CHECK_FALSE(PreferNode(probe, 2_MiB, 1023).ok());
  CHECK_FALSE(PreferNode(probe, 2_MiB, 1024).ok());
  UnmapPages(probe, 2_MiB);
  if (!allowed) WARN("this machine lets nobody choose a node");

  HostPool pool(fake.driver(), MapPages, [](const Driver&, CUdevice) { return 0; });
  pool.BeginGrowth({{fake.Context(0), 16_MiB}});
  std::vector<HostBlock> blocks;
  TakeAll(pool, blocks, 16_MiB, 4_MiB);
  pool.EndGrowth();
  CHECK(pool.misplaced().has_value() == !allowed);
  if (allowed) CHECK(PreferredNode(blocks[0].memory()) == 0);

  HostPool lost(fake.driver(), MapPages, [](const Driver&, CUdevice) { return 1023; });
  lost.BeginGrowth({{fake.Context(0), 16_MiB}});
  TakeAll(lost, blocks, 16_MiB, 4_MiB);
  lost.EndGrowth();
  CHECK(lost.held() == 16_MiB);
  REQUIRE(lost.misplaced().has_value());
  CHECK(std::string_view(lost.misplaced()->what).find("node 1023") != std::string_view::npos);
  blocks.clear();
}

// PCI 0001:41:00.0.
CUresult AskPci(int* out, CUdevice_attribute attribute, CUdevice) {
  *out = attribute == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID ? 1
         : attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID  ? 0x41
                                                        : 0;
  return CUDA_SUCCESS;
}

TEST_CASE("a GPU's node is what sysfs says of its PCI device") {
  char folder[] = "/tmp/parkade-node-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::string device = std::string(folder) + "/0001:41:00.0";
  const std::string file = device + "/numa_node";
  Driver driver;
  driver.device_get_attribute = AskPci;
  CHECK(GpuNode(driver, 0, folder) == kAnyNode);
  REQUIRE(mkdir(device.c_str(), 0700) == 0);
  for (const auto& [text, node] : {std::pair{"1\n", 1}, {"-1\n", kAnyNode}, {"", kAnyNode}}) {
    FILE* out = fopen(file.c_str(), "w");
    REQUIRE(out != nullptr);
    fputs(text, out);
    fclose(out);
    CHECK(GpuNode(driver, 0, folder) == node);
  }
  unlink(file.c_str());
  rmdir(device.c_str());
  rmdir(folder);
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
  pool.BeginGrowth({{fake.Context(0), 64_MiB}});
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
  if (EmulatorLacks("limits of locked memory (mlockall)")) return;
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
