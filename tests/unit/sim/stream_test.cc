// Streams and events: asynchrony, order between streams, and time.
#include <atomic>
#include <chrono>
#include <future>

#include "tests/unit/sim/gpu.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

// Holds a stream until Open.
class Barrier {
 public:
  static void CUDA_CB Wait(void* self) { static_cast<Barrier*>(self)->open_.wait(false); }
  void Open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<bool> open_{false};
};

class OwnStream {
 public:
  explicit OwnStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    REQUIRE(cuStreamCreate(&stream_, flags) == CUDA_SUCCESS);
  }
  ~OwnStream() { cuStreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  operator CUstream() const { return stream_; }

 private:
  CUstream stream_ = nullptr;
};

class OwnEvent {
 public:
  explicit OwnEvent(unsigned flags = 0) { REQUIRE(cuEventCreate(&event_, flags) == CUDA_SUCCESS); }
  ~OwnEvent() { cuEventDestroy(event_); }
  OwnEvent(const OwnEvent&) = delete;
  OwnEvent& operator=(const OwnEvent&) = delete;
  operator CUevent() const { return event_; }

 private:
  CUevent event_ = nullptr;
};

}  // namespace

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
  CUmodule module = nullptr;
  CUfunction spin = nullptr;
  REQUIRE(cuModuleLoadData(&module, "any") == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&spin, module, "spin_ms") == CUDA_SUCCESS);
  uint32_t ms = 30;
  void* parameters[] = {&ms};
  REQUIRE(cuEventRecord(start, stream) == CUDA_SUCCESS);
  REQUIRE(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr) == CUDA_SUCCESS);
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
