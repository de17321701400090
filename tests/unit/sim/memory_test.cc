// Native memory: allocation, its edge answers, copies and fills.
#include <unistd.h>

#include <numeric>

#include "tests/unit/emulated.h"
#include "tests/unit/sim/gpu.h"

using namespace parkade;
using namespace parkade::sim;

TEST_CASE("edge calls answer as the driver does") {
  const Gpu gpu;
  CUdeviceptr at = 1;
  REQUIRE(cuMemAlloc(&at, 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemFree(0) == CUDA_SUCCESS);
  const Buffer buffer(4_MiB);
  REQUIRE(cuMemFree(buffer.at() + 256) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemAlloc(&at, Bytes(1) << 45) == CUDA_ERROR_OUT_OF_MEMORY);
  size_t bytes = 77;
  REQUIRE(cuDeviceTotalMem(&bytes, 99) == CUDA_ERROR_INVALID_DEVICE);
  REQUIRE(bytes == 0);
}

TEST_CASE("the pitch is written before memory is looked for") {
  const Gpu gpu;
  CUdeviceptr at = 1;
  size_t pitch = 77;
  REQUIRE(cuMemAllocPitch(&at, &pitch, 1000, Bytes(1) << 40, 4) == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(at == 0);
  REQUIRE(pitch == 1024);
  REQUIRE(cuMemAllocPitch(&at, &pitch, 1000, 0, 4) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(pitch == 0);
}

TEST_CASE("a dma-buf may end with the last page of the GPU") {
  const Gpu gpu;
  constexpr auto kType = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
  const Buffer buffer(2_MiB + 100);
  int fd = -5;
  REQUIRE(cuMemGetHandleForAddressRange(&fd, buffer.at(), 4_MiB, kType, 0) == CUDA_SUCCESS);
  REQUIRE(fd >= 0);
  close(fd);
  REQUIRE(cuMemGetHandleForAddressRange(&fd, buffer.at(), 4_MiB + 4_KiB, kType, 0) ==
          CUDA_ERROR_INVALID_VALUE);
  REQUIRE(fd == -1);
  // Neither looks at memory.
  fd = -5;
  REQUIRE(cuMemGetHandleForAddressRange(&fd, buffer.at(), SIZE_MAX - 4095, kType, 0) ==
          CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemGetHandleForAddressRange(&fd, 0, 2_MiB, kType, 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(fd == -5);
}

TEST_CASE("calls without a context or before cuInit are refused") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  CUdeviceptr at = 0;
  REQUIRE(cuMemAlloc(&at, 4096) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("free memory shrinks by what is allocated and grows back") {
  const Gpu gpu;
  const Bytes before = gpu.Free();
  {
    const Buffer buffer(64_MiB);
    REQUIRE(gpu.Free() == before - 64_MiB);
    CUdeviceptr more = 0;
    REQUIRE(cuMemAlloc(&more, before) == CUDA_ERROR_OUT_OF_MEMORY);
  }
  REQUIRE(gpu.Free() == before);
}

TEST_CASE("memory of a context goes with it") {
  const Gpu gpu;
  const Bytes before = gpu.Free();
  CUcontext own = nullptr;
  REQUIRE(cuCtxCreate(&own, nullptr, 0, 0) == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before - 16_MiB);
  CUdeviceptr at = 0;
  REQUIRE(cuMemAlloc(&at, 8_MiB) == CUDA_SUCCESS);
  REQUIRE(cuCtxDestroy(own) == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before);
}

TEST_CASE("bytes survive copies in, across and out") {
  const Gpu gpu;
  const size_t n = GENERATE(1, 4095, 300'000);
  std::vector<uint8_t> in(n), out(n);
  std::iota(in.begin(), in.end(), uint8_t(7));
  const Buffer first(n), second(n);
  REQUIRE(cuMemcpyHtoD(first.at(), in.data(), n) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoD(second.at(), first.at(), n) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoH(out.data(), second.at(), n) == CUDA_SUCCESS);
  REQUIRE(out == in);
}

TEST_CASE("a two-dimensional copy moves the rectangle and nothing beside it") {
  const Gpu gpu;
  const Buffer buffer(8 * 64);
  REQUIRE(cuMemsetD8(buffer.at(), 0xee, 8 * 64) == CUDA_SUCCESS);
  std::vector<uint8_t> in(3 * 10, 0x11), out(8 * 64);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = in.data();
  copy.srcPitch = 10;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = buffer.at();
  copy.dstPitch = 64;
  copy.dstXInBytes = 5;
  copy.dstY = 2;
  copy.WidthInBytes = 10;
  copy.Height = 3;
  REQUIRE(cuMemcpy2D(&copy) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoH(out.data(), buffer.at(), out.size()) == CUDA_SUCCESS);
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t row = i / 64, column = i % 64;
    const bool inside = row >= 2 && row < 5 && column >= 5 && column < 15;
    REQUIRE(out[i] == (inside ? 0x11 : 0xee));
  }
}

TEST_CASE("fills write whole units") {
  const Gpu gpu;
  const Buffer buffer(64);
  REQUIRE(cuMemsetD32(buffer.at(), 0x01020304, 16) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD16(buffer.at() + 4, 0xabcd, 2) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8(buffer.at() + 8, 0x55, 3) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD16(buffer.at() + 1, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  const auto words = ReadWords(buffer.at(), 4);
  REQUIRE(words == std::vector<uint32_t>{0x01020304, 0xabcdabcd, 0x01555555, 0x01020304});
}

TEST_CASE("host memory is registered once and unregistered by its base") {
  const Gpu gpu;
  std::vector<char> memory(3 << 20);
  char* const base = memory.data();
  REQUIRE(cuMemHostRegister(base, 2 << 20, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemHostRegister(base, 2 << 20, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  REQUIRE(cuMemHostRegister(base + (1 << 20), 2 << 20, 0) ==
          CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  REQUIRE(cuMemHostUnregister(base + 4096) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemHostUnregister(base) == CUDA_SUCCESS);
  REQUIRE(cuMemHostUnregister(base) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  if (!EmulatorLacks("a way to tell that nothing is mapped (MADV_POPULATE_READ)")) {
    REQUIRE(cuMemHostRegister(reinterpret_cast<void*>(0x1000), 4096, 0) ==
            CUDA_ERROR_INVALID_VALUE);
  }
  const Buffer device(4096);
  REQUIRE(cuMemHostRegister(reinterpret_cast<void*>(device.at()), 4096, 0) ==
          CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("copies and fills outside of memory are refused at once and leave the context alone") {
  const Gpu gpu;
  const Buffer buffer(4_MiB);
  CUdeviceptr reserved = 0;
  REQUIRE(cuMemAddressReserve(&reserved, 2_MiB, 0, 0, 0) == CUDA_SUCCESS);
  char host[64] = {};
  for (const CUdeviceptr at : {buffer.at() + 4_MiB - 8, reserved, CUdeviceptr(0x12345000)}) {
    REQUIRE(cuMemcpyHtoD(at, host, sizeof host) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuMemcpyDtoH(host, at, sizeof host) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuMemcpyHtoDAsync(at, host, sizeof host, nullptr) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuMemsetD8(at, 1, sizeof host) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuMemsetD8Async(at, 1, sizeof host, nullptr) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuMemsetD8(at, 1, 0) == CUDA_SUCCESS);
  }
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  REQUIRE(cuMemAddressFree(reserved, 2_MiB) == CUDA_SUCCESS);
}

TEST_CASE("a primary context keeps its handle when it comes back, and nothing else") {
  CUcontext first = nullptr;
  CUdeviceptr at = 0;
  {
    const Gpu gpu;
    first = gpu.context();
    REQUIRE(cuMemAlloc(&at, 4096) == CUDA_SUCCESS);
  }
  REQUIRE(cuCtxPushCurrent(first) == CUDA_SUCCESS);
  CUdeviceptr other = 0;
  REQUIRE(cuMemAlloc(&other, 4096) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CUcontext popped = nullptr;
  REQUIRE(cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
  const Gpu gpu;
  REQUIRE(gpu.context() == first);
  REQUIRE(cuMemFree(at) == CUDA_ERROR_INVALID_VALUE);
}
