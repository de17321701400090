// Context: a context for one test of the hooks. The test asks for the names of cuda.h as they are.
#pragma once

#include <cuda.h>

#include <catch2/catch.hpp>

// The primary context of device 0, current on this thread.
class Context {
 public:
  Context() {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context_, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context_) == CUDA_SUCCESS);
  }
  ~Context() {
    cuCtxSetCurrent(CUcontext(nullptr));
    cuDevicePrimaryCtxRelease_v2(0);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  CUcontext get() const { return context_; }

 private:
  CUcontext context_ = nullptr;
};
