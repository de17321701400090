// Streams and events of one scope, and a way to hold a stream.
#pragma once

#include <atomic>

#include "tests/unit/sim/gpu.h"

namespace parkade::sim {

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

// Work for a stream that keeps it busy for a while.
inline void Spin(CUstream stream, uint32_t ms) {
  CUmodule module = nullptr;
  CUfunction spin = nullptr;
  REQUIRE(cuModuleLoadData(&module, "any") == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&spin, module, "spin_ms") == CUDA_SUCCESS);
  void* parameters[] = {&ms};
  REQUIRE(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr) == CUDA_SUCCESS);
}

}  // namespace parkade::sim
