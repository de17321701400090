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

  // What the processor says of the bytes of `extents`, one after the other.
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
  std::vector<Digest> Oldest() {
    const auto digests = gpu->WaitOldest();
    REQUIRE(digests.ok());
    return {digests->begin(), digests->end()};
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
    const std::vector<Extent> extents = {{32_MiB - bytes, bytes}};
    REQUIRE(m.gpu->Queue(m.base, extents, nullptr).ok());
    CHECK(m.Oldest() == m.Expected(extents));
  }
}

TEST_CASE("the GPU gathers extents in their order, up to the most that it takes") {
  HashedMemory m(32_MiB);
  std::mt19937 random(7);
  for (const size_t count : {2u, 3u, 100u, 255u, 256u}) {
    std::vector<Extent> extents;
    Bytes at = 0;
    for (size_t i = 0; i < count; ++i) {
      const Bytes bytes = 4096 * (1 + random() % 15);
      extents.push_back({at, bytes});
      at += bytes + 4096 * (random() % 17);
    }
    REQUIRE(GpuHash::Takes(extents.size()));
    REQUIRE(m.gpu->Queue(m.base, extents, nullptr).ok());
    CHECK(m.Oldest() == m.Expected(extents));
  }
  CHECK_FALSE(GpuHash::Takes(257));
}

TEST_CASE("zeroes, and one bit among them, have digests of their own") {
  HashedMemory m(2_MiB);
  std::fill(m.host.begin(), m.host.end(), 0);
  REQUIRE(cuMemsetD8(m.base, 0, 2_MiB) == CUDA_SUCCESS);
  const std::vector<Extent> all = {{0, 2_MiB}};
  REQUIRE(m.gpu->Queue(m.base, all, nullptr).ok());
  const auto zeroes = m.Oldest();
  CHECK(zeroes == m.Expected(all));
  m.host[1'234'567] = 1;
  REQUIRE(cuMemsetD8(m.base + 1'234'567, 1, 1) == CUDA_SUCCESS);
  REQUIRE(m.gpu->Queue(m.base, all, nullptr).ok());
  const auto changed = m.Oldest();
  CHECK(changed == m.Expected(all));
  CHECK(changed != zeroes);
}

TEST_CASE("chunks queue up, wait for their copies, and come out in order") {
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
    const std::vector<Extent> extents = {{at, 1_MiB}};
    REQUIRE(m.gpu->Queue(m.base, extents, copied).ok());
  }
  CHECK(queued == 32);
  for (size_t i = 0; i < queued; ++i) CHECK(m.Oldest() == m.Expected({{i * 1_MiB, 1_MiB}}));
  CHECK(m.gpu->idle());
  cuEventDestroy(copied);
  cuStreamDestroy(copies);
}

TEST_CASE("speed of the hash, for who runs this on a card", "[.speed]") {
  HashedMemory m(32_MiB);
  const std::vector<Extent> all = {{0, 32_MiB}};
  for (const int deep : {1, 8, 32}) {
    const auto begin = std::chrono::steady_clock::now();
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < deep; ++i) REQUIRE(m.gpu->Queue(m.base, all, nullptr).ok());
      while (!m.gpu->idle()) m.Oldest();
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    printf("%d chunks of 32 MiB at a time: %.0f GB/s\n", deep,
           10.0 * deep * double(32_MiB) / seconds / 1e9);
  }
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) REQUIRE(GpuHash::Open(m.driver).ok());
  printf(
      "open and close: %.0f us\n",
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 20 * 1e6);
}

}  // namespace
}  // namespace parkade::shim
