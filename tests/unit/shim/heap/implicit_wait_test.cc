// The wait that freeing a native allocation is.
#include "shim/heap/implicit_wait.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "tests/unit/shim/fake_driver.h"

namespace parkade::shim {
namespace {

TEST_CASE("a wait frees a native allocation that was there before and replaces it") {
  FakeDriver fake;
  ImplicitWait wait(fake.driver());
  wait.Prepare(fake.Context(0));
  const int made = fake.Calls("cuMemAlloc");
  CHECK(made > 0);
  fake.Fail("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(wait.Run(fake.Context(0)) == CUDA_SUCCESS);
  CHECK_FALSE(fake.FaultPending("cuMemAlloc"));  // the replacement failed, the wait did not
  CHECK(fake.Calls("cuMemFree") == 1);
  CHECK(wait.Run(fake.Context(0)) == CUDA_SUCCESS);
  CHECK(fake.held().native == size_t(made));  // the stock is whole again
  CHECK(fake.Calls("cuCtxSynchronize") == 0);
  wait.Clear();
  CHECK(fake.held() == FakeDriver::Held{});
  CHECK(fake.mistakes() == 0);  // among them: a native call outside relaxed capture mode
}

TEST_CASE("a wait makes nothing where allocations have laid in stock, and that has an end") {
  FakeDriver fake;
  ImplicitWait wait(fake.driver());
  wait.Prepare(fake.Context(0));
  const size_t least = fake.held().native;
  for (int i = 0; i < 10; ++i) wait.Prepare(fake.Context(0));
  CHECK(fake.held().native == least + 10);
  const int made = fake.Calls("cuMemAlloc");
  for (int i = 0; i < 10; ++i) CHECK(wait.Run(fake.Context(0)) == CUDA_SUCCESS);
  CHECK(fake.Calls("cuMemAlloc") == made);
  for (int i = 0; i < 1000; ++i) wait.Prepare(fake.Context(0));
  CHECK(fake.held().native <= 512);  // as many as fit in a block of 2 MiB
  wait.Clear();
  CHECK(fake.held() == FakeDriver::Held{});
}

TEST_CASE("a wait needs no current context and leaves the caller's as it was") {
  FakeDriver fake({.devices = 2});
  ImplicitWait wait(fake.driver());
  CUcontext current = nullptr;
  CHECK(wait.Run(fake.Context(1)) == CUDA_SUCCESS);
  fake.driver().ctx_get_current(&current);
  CHECK(current == nullptr);
  FakeDriver::MakeCurrent(fake.Context(0));
  CHECK(wait.Run(fake.Context(1)) == CUDA_SUCCESS);
  fake.driver().ctx_get_current(&current);
  CHECK(current == fake.Context(0));
  CHECK(fake.used(0) == 0);
  CHECK(fake.used(1) > 0);
  wait.Clear();
}

TEST_CASE("an error of the work is the wait's error") {
  FakeDriver fake;
  ImplicitWait wait(fake.driver());
  wait.Prepare(fake.Context(0));
  fake.Fail("cuMemFree", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(wait.Run(fake.Context(0)) == CUDA_ERROR_ILLEGAL_ADDRESS);
  fake.Fail("cuCtxPushCurrent", 1, CUDA_ERROR_INVALID_CONTEXT);
  CHECK(wait.Run(fake.Context(0)) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("with nothing in stock and no memory a wait says so") {
  FakeDriver fake;
  ImplicitWait wait(fake.driver());
  fake.Fail("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, 10);
  CHECK(wait.Run(fake.Context(0)) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(fake.Calls("cuMemFree") == 0);
}

TEST_CASE("a context that goes takes its stock along") {
  FakeDriver fake({.devices = 2});
  ImplicitWait wait(fake.driver());
  wait.Prepare(fake.Context(0));
  wait.Prepare(fake.Context(1));
  wait.Forget(fake.Context(0));
  fake.DestroyContext(fake.Context(0));
  CHECK(wait.Run(fake.Context(1)) == CUDA_SUCCESS);
  wait.Clear();
  CHECK(fake.held() == FakeDriver::Held{});
  CHECK(fake.mistakes() == 0);
}

TEST_CASE("threads that wait at once each wait, and the stock does not grow") {
  FakeDriver fake;
  ImplicitWait wait(fake.driver());
  wait.Prepare(fake.Context(0));
  const size_t stock = fake.held().native;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        if (wait.Run(fake.Context(0)) != CUDA_SUCCESS) abort();
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(fake.Calls("cuMemFree") == 8 * 500);
  CHECK(fake.held().native == stock);
  wait.Clear();
  CHECK(fake.held() == FakeDriver::Held{});
}

}  // namespace
}  // namespace parkade::shim
