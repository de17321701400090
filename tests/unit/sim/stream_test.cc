// Streams and events: asynchrony, order between streams, and time.
#include <dlfcn.h>

#include <chrono>
#include <future>

#include "tests/unit/sim/gpu.h"
#include "tests/unit/sim/streams.h"

using namespace parkade;
using namespace parkade::sim;

TEST_CASE("work runs behind the caller, in order") {
  const Gpu gpu;
  const Buffer buffer(4);
  const OwnStream stream;
  Barrier barrier;
  REQUIRE(cuStreamQuery(stream) == CUDA_SUCCESS);
  REQUIRE(cuLaunchHostFunc(stream, Barrier::Wait, &barrier) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32Async(buffer.at(), 1, 1, stream) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32Async(buffer.at(), 2, 1, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
  barrier.Open();
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  REQUIRE(ReadWords(buffer.at(), 1)[0] == 2);
}

TEST_CASE("an event is ready when what came before it is done, and holds other streams") {
  const Gpu gpu;
  const OwnStream first, second;
  const OwnEvent event;
  Barrier barrier;
  REQUIRE(cuEventQuery(event) == CUDA_SUCCESS);
  REQUIRE(cuLaunchHostFunc(first, Barrier::Wait, &barrier) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(event, first) == CUDA_SUCCESS);
  REQUIRE(cuStreamWaitEvent(second, event, 0) == CUDA_SUCCESS);
  REQUIRE(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  REQUIRE(cuStreamQuery(second) == CUDA_ERROR_NOT_READY);
  barrier.Open();
  REQUIRE(cuEventSynchronize(event) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(second) == CUDA_SUCCESS);
}

TEST_CASE("the legacy stream waits for blocking streams and not for the others") {
  const Gpu gpu;
  const unsigned flags = GENERATE(CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING);
  const OwnStream stream(flags);
  const OwnEvent event;
  Barrier barrier;
  REQUIRE(cuLaunchHostFunc(stream, Barrier::Wait, &barrier) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(event, nullptr) == CUDA_SUCCESS);
  if (flags == CU_STREAM_NON_BLOCKING) {
    REQUIRE(cuEventSynchronize(event) == CUDA_SUCCESS);
    barrier.Open();
  } else {
    REQUIRE(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
    barrier.Open();
    REQUIRE(cuEventSynchronize(event) == CUDA_SUCCESS);
  }
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
}

TEST_CASE("the per-thread default stream of one thread does not wait for that of another") {
  const Gpu gpu;
  const auto launch =
      reinterpret_cast<decltype(&cuLaunchHostFunc)>(dlsym(RTLD_DEFAULT, "cuLaunchHostFunc_ptsz"));
  const auto synchronize = reinterpret_cast<decltype(&cuStreamSynchronize)>(
      dlsym(RTLD_DEFAULT, "cuStreamSynchronize_ptsz"));
  REQUIRE(launch != nullptr);
  REQUIRE(synchronize != nullptr);
  Barrier barrier;
  REQUIRE(launch(nullptr, Barrier::Wait, &barrier) == CUDA_SUCCESS);
  REQUIRE(cuStreamQuery(CU_STREAM_PER_THREAD) == CUDA_ERROR_NOT_READY);
  auto other = std::async(std::launch::async, [&] {
    cuCtxSetCurrent(gpu.context());
    return synchronize(nullptr);
  });
  REQUIRE(other.get() == CUDA_SUCCESS);
  barrier.Open();
  REQUIRE(synchronize(nullptr) == CUDA_SUCCESS);
}

TEST_CASE("freeing memory waits for every stream of the context") {
  const Gpu gpu;
  CUdeviceptr at = 0;
  REQUIRE(cuMemAlloc(&at, 4096) == CUDA_SUCCESS);
  const OwnStream stream;
  Barrier barrier;
  REQUIRE(cuLaunchHostFunc(stream, Barrier::Wait, &barrier) == CUDA_SUCCESS);
  auto freed = std::async(std::launch::async, [&] {
    cuCtxSetCurrent(gpu.context());
    return cuMemFree(at);
  });
  REQUIRE(freed.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  barrier.Open();
  REQUIRE(freed.get() == CUDA_SUCCESS);
  REQUIRE(cuStreamQuery(stream) == CUDA_SUCCESS);
}

TEST_CASE("elapsed time is the time between two events") {
  const Gpu gpu;
  const OwnStream stream;
  const OwnEvent start, end, untimed(CU_EVENT_DISABLE_TIMING);
  REQUIRE(cuEventRecord(start, stream) == CUDA_SUCCESS);
  Spin(stream, 30);
  REQUIRE(cuEventRecord(end, stream) == CUDA_SUCCESS);
  float elapsed = 0;
  REQUIRE(cuEventElapsedTime(&elapsed, start, end) == CUDA_ERROR_NOT_READY);
  REQUIRE(cuEventSynchronize(end) == CUDA_SUCCESS);
  REQUIRE(cuEventElapsedTime(&elapsed, start, end) == CUDA_SUCCESS);
  REQUIRE(elapsed >= 29);
  REQUIRE(cuEventElapsedTime(&elapsed, start, untimed) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("a stream that is destroyed early still does its work") {
  const Gpu gpu;
  const Buffer buffer(4);
  Barrier barrier;
  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_DEFAULT) == CUDA_SUCCESS);
  const OwnEvent event;
  REQUIRE(cuLaunchHostFunc(stream, Barrier::Wait, &barrier) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32Async(buffer.at(), 9, 1, stream) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(event, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamDestroy(stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamQuery(stream) == CUDA_ERROR_INVALID_HANDLE);
  barrier.Open();
  REQUIRE(cuEventSynchronize(event) == CUDA_SUCCESS);
  REQUIRE(ReadWords(buffer.at(), 1)[0] == 9);
}
