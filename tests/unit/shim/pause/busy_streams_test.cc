// Which streams a message names: those with work, those that do not answer, no other.
#include "shim/pause/busy_streams.h"

#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>

namespace parkade::shim {
namespace {

CUstream Stream(uintptr_t n) { return reinterpret_cast<CUstream>(n * 0x100); }

// Streams 1 and 3 are busy, 5 hangs until the test lets go.
std::atomic<bool> let_go{false};
std::atomic<int> asked{0};
CUresult Query(CUstream stream) {
  ++asked;
  if (stream == Stream(5)) {
    for (const Deadline by = Deadline::InMs(10'000); !let_go && !by.Passed();) sched_yield();
  }
  return stream == Stream(1) || stream == Stream(3) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

Driver MakeDriver() {
  Driver driver;
  driver.ctx_push_current = [](CUcontext) { return CUDA_SUCCESS; };
  driver.ctx_pop_current = [](CUcontext*) { return CUDA_SUCCESS; };
  driver.capture_mode_exchange = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
  driver.stream_query = Query;
  return driver;
}
const Driver kDriver = MakeDriver();  // also after the test: a query that hangs outlives it

TEST_CASE("the busy ones are found") {
  const auto busy =
      BusyStreams(kDriver, nullptr, {Stream(1), Stream(2), Stream(3)}, Deadline::InMs(5000));
  CHECK(busy == std::vector{Stream(1), Stream(3)});
  CHECK(NameStreams(busy) == "stream 0x100, stream 0x300");
}

TEST_CASE("one that does not answer counts as busy, and nothing is asked after that") {
  asked = 0;
  const auto busy =
      BusyStreams(kDriver, nullptr, {Stream(1), Stream(5), Stream(2)}, Deadline::InMs(50));
  CHECK(busy == std::vector{Stream(1), Stream(5)});
  let_go = true;
  CHECK(BusyStreams(kDriver, nullptr, {Stream(2)}, Deadline::InMs(5000)).empty());
  CHECK(asked == 4);  // 1 and 5, then 2 and the default stream
}

TEST_CASE("long lists are cut, the default stream has a name, none is said") {
  CHECK(NameStreams({Stream(1), CU_STREAM_LEGACY, Stream(2), Stream(3), Stream(4)}) ==
        "stream 0x100, the default stream, stream 0x200 and 2 more");
  CHECK(NameStreams({}) == "a stream that no hook saw");
}

}  // namespace
}  // namespace parkade::shim
