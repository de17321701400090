// What the tests of the simulated GPU share: a context, and words to read results by.
#pragma once

#include <cuda.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "common/bytes.h"

namespace parkade::sim {

// The primary context of `gpu`, current on this thread while this lives.
class Gpu {
 public:
  explicit Gpu(int gpu = 0) : gpu_(gpu) {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context_, gpu) == CUDA_SUCCESS);
    REQUIRE(cuCtxPushCurrent(context_) == CUDA_SUCCESS);
  }
  ~Gpu() {
    CUcontext popped;
    cuCtxPopCurrent(&popped);
    cuDevicePrimaryCtxRelease(gpu_);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  CUcontext context() const { return context_; }
  Bytes Free() const {
    size_t free = 0, total = 0;
    REQUIRE(cuMemGetInfo(&free, &total) == CUDA_SUCCESS);
    return free;
  }
  CUmemAllocationProp Exportable() const {
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu_};
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return prop;
  }
  CUmemAccessDesc ReadWrite() const {
    return {{CU_MEM_LOCATION_TYPE_DEVICE, gpu_}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  }

 private:
  const int gpu_;
  CUcontext context_ = nullptr;
};

// Native memory, freed at the end.
class Buffer {
 public:
  explicit Buffer(Bytes bytes) { REQUIRE(cuMemAlloc(&at_, bytes) == CUDA_SUCCESS); }
  ~Buffer() { cuMemFree(at_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  CUdeviceptr at() const { return at_; }

 private:
  CUdeviceptr at_ = 0;
};

inline std::vector<uint32_t> ReadWords(CUdeviceptr at, size_t n) {
  std::vector<uint32_t> words(n);
  REQUIRE(cuMemcpyDtoH(words.data(), at, n * 4) == CUDA_SUCCESS);
  return words;
}

}  // namespace parkade::sim
