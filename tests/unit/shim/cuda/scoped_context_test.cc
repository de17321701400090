// ScopedContext and ScopedRelaxedCapture over functions that stand in for the driver.
#include "shim/cuda/scoped_context.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

using namespace parkade::shim;

namespace {

std::vector<CUcontext> stack;
CUresult push_answer = CUDA_SUCCESS;
CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUcontext Context(uintptr_t number) { return reinterpret_cast<CUcontext>(number); }

CUresult Push(CUcontext context) {
  if (push_answer == CUDA_SUCCESS) stack.push_back(context);
  return push_answer;
}

CUresult Pop(CUcontext* out) {
  *out = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult Exchange(CUstreamCaptureMode* inout) {
  std::swap(mode, *inout);
  return CUDA_SUCCESS;
}

Driver FakeDriver() {
  Driver driver;
  driver.ctx_push_current = Push;
  driver.ctx_pop_current = Pop;
  driver.capture_mode_exchange = Exchange;
  return driver;
}

}  // namespace

TEST_CASE("the caller's context is current again afterwards") {
  const Driver driver = FakeDriver();
  stack = {Context(1)};
  push_answer = CUDA_SUCCESS;
  {
    ScopedContext current(driver, Context(2));
    CHECK(current.status() == CUDA_SUCCESS);
    CHECK(stack.back() == Context(2));
  }
  CHECK(stack == std::vector{Context(1)});
}

TEST_CASE("a context that the driver refuses changes nothing, also at the end") {
  const Driver driver = FakeDriver();
  stack = {Context(1)};
  push_answer = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  {
    ScopedContext current(driver, Context(2));
    CHECK(current.status() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }
  CHECK(stack == std::vector{Context(1)});
}

TEST_CASE("the thread's capture mode is relaxed for a while, then the caller's again") {
  const Driver driver = FakeDriver();
  mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  {
    ScopedRelaxedCapture relaxed(driver);
    CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  CHECK(mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

TEST_CASE("the driver is filled with the functions that there are") {
  const Driver driver = LoadDriver([](const char* symbol) -> void* {
    return strcmp(symbol, "cuCtxPushCurrent_v2") == 0 ? reinterpret_cast<void*>(&Push) : nullptr;
  });
  CHECK(driver.ctx_push_current == Push);
  CHECK(driver.ctx_pop_current == nullptr);
  CHECK(driver.mem_alloc == nullptr);
}
