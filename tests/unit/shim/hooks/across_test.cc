// Copies of one device's memory while another device is current: as the driver does them for native
// memory, by every call that copies.
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/bytes.h"

using namespace parkade;

namespace {

constexpr Bytes kBytes = 64_KiB;
using Bytes64K = std::vector<char>;

// Contexts of both devices anew, so that nothing is open yet, that of the first current; memory of
// each.
class Devices {
 public:
  Devices() {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    for (int i = 1; i >= 0; --i) {
      REQUIRE(cuDevicePrimaryCtxRetain(&contexts[i], i) == CUDA_SUCCESS);
      REQUIRE(cuCtxSetCurrent(contexts[i]) == CUDA_SUCCESS);
      REQUIRE(cuMemAlloc_v2(&memory[i], kBytes) == CUDA_SUCCESS);
      REQUIRE(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    }
  }
  ~Devices() {
    for (int i = 0; i < 2; ++i) {
      cuMemFree_v2(memory[i]);
      cuStreamDestroy_v2(streams[i]);
      cuDevicePrimaryCtxRelease_v2(i);
    }
    cuCtxSetCurrent(CUcontext(nullptr));
  }
  void Fill(int device, const Bytes64K& bytes) {
    REQUIRE(cuCtxSetCurrent(contexts[device]) == CUDA_SUCCESS);
    REQUIRE(cuMemcpyHtoD_v2(memory[device], bytes.data(), kBytes) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(contexts[0]) == CUDA_SUCCESS);
  }
  Bytes64K Read(int device) {
    Bytes64K bytes(kBytes);
    REQUIRE(cuCtxSetCurrent(contexts[device]) == CUDA_SUCCESS);
    REQUIRE(cuMemcpyDtoH_v2(bytes.data(), memory[device], kBytes) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(contexts[0]) == CUDA_SUCCESS);
    return bytes;
  }
  void Wait() {
    for (CUstream stream : streams) REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  }

  CUcontext contexts[2] = {};
  CUdeviceptr memory[2] = {};
  CUstream streams[2] = {};
};

CUDA_MEMCPY2D Rows(CUmemorytype from_type, const void* from_host, CUdeviceptr from,
                   CUmemorytype to_type, void* to_host, CUdeviceptr to) {
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = from_type;
  rows.srcHost = from_host;
  rows.srcDevice = from;
  rows.dstMemoryType = to_type;
  rows.dstHost = to_host;
  rows.dstDevice = to;
  rows.srcPitch = rows.dstPitch = rows.WidthInBytes = 1024;
  rows.Height = kBytes / 1024;
  return rows;
}

}  // namespace

TEST_CASE("to the host and from it") {
  constexpr auto kHost = CU_MEMORYTYPE_HOST;
  constexpr auto kDevice = CU_MEMORYTYPE_DEVICE;
  const Bytes64K pattern(kBytes, 'p'), zeros(kBytes, 0);
  Bytes64K host = pattern;
  auto* const at = host.data();
  const auto address = reinterpret_cast<CUdeviceptr>(at);
  using Call = std::function<CUresult(CUdeviceptr far, CUstream stream)>;
  const std::pair<const char*, Call> out[] = {
      {"DtoH", [&](auto far, auto) { return cuMemcpyDtoH_v2(at, far, kBytes); }},
      {"DtoHAsync", [&](auto far, auto s) { return cuMemcpyDtoHAsync_v2(at, far, kBytes, s); }},
      {"unified", [&](auto far, auto) { return cuMemcpy(address, far, kBytes); }},
      {"unified async", [&](auto far, auto s) { return cuMemcpyAsync(address, far, kBytes, s); }},
      {"rows",
       [&](auto far, auto) {
         const auto rows = Rows(kDevice, nullptr, far, kHost, at, 0);
         return cuMemcpy2D_v2(&rows);
       }},
      {"rows async", [&](auto far, auto s) {
         const auto rows = Rows(kDevice, nullptr, far, kHost, at, 0);
         return cuMemcpy2DAsync_v2(&rows, s);
       }}};
  const std::pair<const char*, Call> in[] = {
      {"HtoD", [&](auto far, auto) { return cuMemcpyHtoD_v2(far, at, kBytes); }},
      {"HtoDAsync", [&](auto far, auto s) { return cuMemcpyHtoDAsync_v2(far, at, kBytes, s); }},
      {"unified", [&](auto far, auto) { return cuMemcpy(far, address, kBytes); }},
      {"unified async", [&](auto far, auto s) { return cuMemcpyAsync(far, address, kBytes, s); }},
      {"rows", [&](auto far, auto) {
         const auto rows = Rows(kHost, at, 0, kDevice, nullptr, far);
         return cuMemcpy2DUnaligned_v2(&rows);
       }}};
  Devices d;
  for (CUstream stream : {CUstream(nullptr), d.streams[0], d.streams[1]}) {
    for (const auto& [name, call] : out) {
      INFO(name);
      d.Fill(1, pattern);
      host = zeros;
      REQUIRE(call(d.memory[1], stream) == CUDA_SUCCESS);
      d.Wait();
      CHECK(host == pattern);
    }
    for (const auto& [name, call] : in) {
      INFO(name);
      d.Fill(1, zeros);
      host = pattern;
      REQUIRE(call(d.memory[1], stream) == CUDA_SUCCESS);
      d.Wait();
      CHECK(d.Read(1) == pattern);
    }
  }
}

TEST_CASE("from one device to the other, both ways, whatever is current") {
  const Bytes64K pattern(kBytes, 'q'), zeros(kBytes, 0);
  Devices d;
  for (const int current : {0, 1}) {
    for (const int from : {0, 1}) {
      const int to = 1 - from;
      d.Fill(from, pattern);
      d.Fill(to, zeros);
      REQUIRE(cuCtxSetCurrent(d.contexts[current]) == CUDA_SUCCESS);
      CHECK(cuMemcpyDtoD_v2(d.memory[to], d.memory[from], kBytes) == CUDA_SUCCESS);
      d.Wait();
      CHECK(d.Read(to) == pattern);
    }
  }
}

TEST_CASE("memory made before and after, and where peer access has come and gone") {
  const Bytes64K pattern(kBytes, 'r');
  Devices d;
  Bytes64K host(kBytes);
  d.Fill(1, pattern);
  REQUIRE(cuMemcpyDtoH_v2(host.data(), d.memory[1], kBytes) == CUDA_SUCCESS);
  CHECK(host == pattern);
  REQUIRE(cuCtxEnablePeerAccess(d.contexts[1], 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxDisablePeerAccess(d.contexts[1]) == CUDA_SUCCESS);
  for (const Bytes bytes : {Bytes(kBytes), 40_MiB}) {
    CUdeviceptr later = 0;
    REQUIRE(cuCtxSetCurrent(d.contexts[1]) == CUDA_SUCCESS);
    REQUIRE(cuMemAlloc_v2(&later, bytes) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(d.contexts[0]) == CUDA_SUCCESS);
    CHECK(cuMemcpyHtoD_v2(later, pattern.data(), kBytes) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoH_v2(host.data(), later, kBytes) == CUDA_SUCCESS);
    CHECK(cuMemFree_v2(later) == CUDA_SUCCESS);
  }
}

TEST_CASE("threads that copy so for the first time together") {
  for (int round = 0; round < 20; ++round) {
    Devices d;
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        Bytes64K host(kBytes);
        cuCtxSetCurrent(d.contexts[0]);
        if (cuMemcpyDtoH_v2(host.data(), d.memory[1], kBytes) == CUDA_SUCCESS) ++right;
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(right == 4);
  }
}

TEST_CASE("what is wrong stays wrong") {
  Devices d;
  Bytes64K host(kBytes);
  CHECK(cuMemcpyDtoH_v2(host.data(), 4096, kBytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyDtoH_v2(host.data(), d.memory[1], 64_MiB) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpy2D_v2(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyDtoD_v2(d.memory[0], d.memory[1], 64_MiB) == CUDA_ERROR_INVALID_VALUE);
}
