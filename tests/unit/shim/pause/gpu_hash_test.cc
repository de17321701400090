// The kernel's digests are those of the processor. On the simulated GPU this shows all but the
// kernel itself, whose host twin runs there; tests/gpu/block_hash.py runs it on a card.
#include "shim/pause/gpu_hash.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>

#include "tests/unit/sim/gpu.h"

namespace parkade::shim {
namespace {

struct HashedMemory {
  explicit HashedMemory(Bytes bytes) : host(bytes) {
    std::mt19937_64 random(bytes);
    for (Bytes at = 0; at < bytes; at += 8) {
      const uint64_t word = random();
      memcpy(host.data() + at, &word, 8);
    }
    REQUIRE(cuMemAlloc(&base, bytes) == CUDA_SUCCESS);
    REQUIRE(cuMemcpyHtoD(base, host.data(), bytes) == CUDA_SUCCESS);
    auto opened = GpuHash::Open(driver);
    REQUIRE(opened.ok());
    gpu = std::move(*opened);
  }
  ~HashedMemory() { cuMemFree(base); }

  // What the processor says of the bytes of `extents`, one after the other, block by block.
  std::vector<Digest> Expected(const std::vector<Extent>& extents) const {
    std::vector<char> gathered;
    for (const Extent& extent : extents) {
      const auto from = host.begin() + ptrdiff_t(extent.offset);
      gathered.insert(gathered.end(), from, from + ptrdiff_t(extent.bytes));
    }
    std::vector<Digest> digests;
    for (Bytes at = 0; at < gathered.size(); at += kHashBlock) {
      digests.push_back(
          HashBlock(gathered.data() + at, std::min<Bytes>(kHashBlock, gathered.size() - at)));
    }
    return digests;
  }
  // The whole blocks of one extent, and what is left of it.
  static std::vector<std::vector<Extent>> Blocks(Extent extent) {
    std::vector<std::vector<Extent>> blocks;
    for (Bytes at = 0; at < extent.bytes; at += kHashBlock) {
      blocks.push_back({{extent.offset + at, std::min(kHashBlock, extent.bytes - at)}});
    }
    return blocks;
  }
  void Queue(const std::vector<std::vector<Extent>>& blocks, CUevent after = nullptr) {
    std::vector<GpuHash::Block> queued;
    for (const auto& extents : blocks) queued.push_back({base, extents});
    REQUIRE(gpu->Queue(queued, after).ok());
  }
  std::vector<HashedBlock> Found() {
    const auto found = gpu->WaitOldest();
    REQUIRE(found.ok());
    return {found->begin(), found->end()};
  }
  std::vector<Digest> Oldest() {
    std::vector<Digest> digests;
    for (const HashedBlock& found : Found()) digests.push_back(DigestOf(found));
    return digests;
  }
  // Writes a word again and again, on both sides.
  void Repeat(Bytes at, Bytes bytes, const void* word, size_t size) {
    for (Bytes i = 0; i < bytes; i += size) memcpy(host.data() + at + i, word, size);
    REQUIRE(cuMemcpyHtoD(base + at, host.data() + at, bytes) == CUDA_SUCCESS);
  }

  const sim::Gpu context{0};
  const Driver driver = LoadDriver([](const char* name) { return dlsym(RTLD_DEFAULT, name); });
  std::vector<char> host;
  CUdeviceptr base = 0;
  std::unique_ptr<GpuHash> gpu;
};

TEST_CASE("the GPU's digests are the processor's, whatever the length") {
  HashedMemory m(32_MiB);
  for (const Bytes bytes : {Bytes(4096), Bytes(8192), Bytes(64 * 4096), 2_MiB - 4096, 2_MiB,
                            2_MiB + 4096, 5_MiB - 8192, 32_MiB}) {
    const Extent all{32_MiB - bytes, bytes};
    m.Queue(m.Blocks(all));
    CHECK(m.Oldest() == m.Expected({all}));
  }
}

TEST_CASE("the GPU gathers extents in their order, up to the most that a block has") {
  HashedMemory m(32_MiB);
  std::mt19937 random(7);
  for (const size_t count : {2u, 3u, 30u, 255u, 256u}) {
    std::vector<Extent> extents;
    Bytes at = 0;
    for (size_t i = 0; i < count; ++i) {
      const Bytes bytes = count < 100 ? 4096 * (1 + random() % 15) : 4096;
      extents.push_back({at, bytes});
      at += bytes + 4096 * (1 + random() % 17);
    }
    m.Queue({extents});
    CHECK(m.Oldest() == m.Expected(extents));
  }
}

TEST_CASE("a full batch of blocks of every length has each its own answer") {
  HashedMemory m(64_MiB);
  std::vector<std::vector<Extent>> blocks;
  std::vector<Digest> expected;
  for (size_t i = 0; i < GpuHash::kMostBlocks; ++i) {
    blocks.push_back({{i * 65536, 4096 * (1 + i % 7)}, {i * 65536 + 32768, 4096 * (1 + i % 5)}});
    expected.push_back(m.Expected(blocks.back()).front());
  }
  m.Queue(blocks);
  CHECK(m.Oldest() == expected);
}

TEST_CASE("zeroes, and one bit among them, have digests of their own") {
  HashedMemory m(2_MiB);
  const uint64_t zero = 0;
  m.Repeat(0, 2_MiB, &zero, sizeof zero);
  m.Queue({{{0, 2_MiB}}});
  const auto zeroes = m.Oldest();
  CHECK(zeroes == m.Expected({{0, 2_MiB}}));
  m.host[1'234'567] = 1;
  REQUIRE(cuMemsetD8(m.base + 1'234'567, 1, 1) == CUDA_SUCCESS);
  m.Queue({{{0, 2_MiB}}});
  const auto changed = m.Oldest();
  CHECK(changed == m.Expected({{0, 2_MiB}}));
  CHECK(changed != zeroes);
}

TEST_CASE("what repeats a word of 4, 8 or 16 bytes is a pattern, and nothing else is") {
  HashedMemory m(2_MiB);
  const uint32_t words[] = {0x3f800000, 7, 8, 9, 10, 11, 12, 13};
  const auto repeats = [&m](Bytes bytes) {
    m.Queue({{{0, bytes}}});
    const HashedBlock found = m.Found().front();
    CHECK(memcmp(found.pattern, m.host.data(), sizeof found.pattern) == 0);
    return found.repeats == 1;
  };
  CHECK_FALSE(repeats(2_MiB));
  for (const size_t size : {4u, 8u, 16u}) {
    m.Repeat(0, 2_MiB, words, size);
    CHECK(repeats(2_MiB));
    CHECK(repeats(4096));
    CHECK(repeats(2_MiB - 8192));
  }
  m.Repeat(0, 2_MiB, words, 32);
  CHECK_FALSE(repeats(2_MiB));
  // Every leaf the same, and each nothing but zeroes and one byte.
  std::vector<char> leaf(4096, 0);
  leaf[4000] = 1;
  m.Repeat(0, 2_MiB, leaf.data(), leaf.size());
  CHECK_FALSE(repeats(2_MiB));
  // One byte in a leaf at either end and in the middle.
  for (const Bytes at : {Bytes(0), Bytes(15), 1_MiB + 77, 2_MiB - 1}) {
    m.Repeat(0, 2_MiB, words, 16);
    REQUIRE(cuMemsetD8(m.base + at, 0x55, 1) == CUDA_SUCCESS);
    m.host[at] = 0x55;
    CHECK_FALSE(repeats(2_MiB));
  }
}

TEST_CASE("blocks are compared byte by byte, with memory and with a pattern") {
  HashedMemory m(32_MiB);
  char* twin = nullptr;
  void* memory = nullptr;
  REQUIRE(cuMemHostAlloc(&memory, 4_MiB, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS);
  twin = static_cast<char*>(memory);
  memcpy(twin, m.host.data(), 1_MiB);
  memcpy(twin + 1_MiB, m.host.data() + 8_MiB, 1_MiB);
  const uint64_t word[2] = {3, 4};
  m.Repeat(20_MiB, 2_MiB, word, sizeof word);
  const std::vector<Extent> gathered = {{0, 1_MiB}, {8_MiB, 1_MiB}};
  const std::vector<Extent> pattern = {{20_MiB, 2_MiB}};
  std::vector<GpuHash::Twin> twins(300, {{m.base, gathered}, twin, nullptr});
  twins[299] = {{m.base, pattern}, nullptr, word};
  auto equal = m.gpu->Compare(twins);
  REQUIRE(equal.ok());
  CHECK(*equal == std::vector<bool>(300, true));
  twin[2_MiB - 1] ^= 1;
  REQUIRE(cuMemsetD8(m.base + 20_MiB, 9, 1) == CUDA_SUCCESS);
  equal = m.gpu->Compare(twins);
  REQUIRE(equal.ok());
  CHECK(*equal == std::vector<bool>(300, false));
  CHECK(m.gpu->Compare({})->empty());
  cuMemFreeHost(memory);
}

TEST_CASE("batches queue up, wait for their copies, and come out in order") {
  HashedMemory m(32_MiB);
  CUstream copies;
  CUevent copied;
  REQUIRE(cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cuEventCreate(&copied, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  size_t queued = 0;
  for (; !m.gpu->full(); ++queued) {
    const Bytes at = queued * 1_MiB;
    for (Bytes i = 0; i < 1_MiB; ++i) m.host[at + i] = char(i * 7 + queued);
    REQUIRE(cuMemcpyHtoDAsync(m.base + at, m.host.data() + at, 1_MiB, copies) == CUDA_SUCCESS);
    REQUIRE(cuEventRecord(copied, copies) == CUDA_SUCCESS);
    m.Queue({{{at, 1_MiB}}}, copied);
  }
  CHECK(queued == 16);
  for (size_t i = 0; i < queued; ++i) CHECK(m.Oldest() == m.Expected({{i * 1_MiB, 1_MiB}}));
  CHECK(m.gpu->idle());
  cuEventDestroy(copied);
  cuStreamDestroy(copies);
}

TEST_CASE("speed of the hash, for who runs this on a card", "[.speed]") {
  HashedMemory m(512_MiB);
  const auto seconds_since = [](auto begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  for (const Bytes bytes : {32_MiB, 128_MiB, 512_MiB}) {
    for (const int deep : {1, 4, 16}) {
      const auto blocks = m.Blocks({0, bytes});
      const auto begin = std::chrono::steady_clock::now();
      for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < deep; ++i) m.Queue(blocks);
        while (!m.gpu->idle()) REQUIRE(m.gpu->WaitOldest().ok());
      }
      printf("%d batches of %llu MiB at a time: %.0f GB/s\n", deep, (unsigned long long)bytes >> 20,
             10.0 * deep * double(bytes) / seconds_since(begin) / 1e9);
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) REQUIRE(GpuHash::Open(m.driver).ok());
  printf("open and close: %.0f us\n", seconds_since(begin) / 20 * 1e6);
}

}  // namespace
}  // namespace parkade::shim
