// Stream capture: what other calls do to a capture. All answers were seen on a card (README.md of
// tests/sim).
#include <functional>
#include <thread>

#include "tests/unit/sim/gpu.h"
#include "tests/unit/sim/streams.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

constexpr CUstreamCaptureMode kModes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                          CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                          CU_STREAM_CAPTURE_MODE_RELAXED};

// Runs `call` on a thread of its own, in relaxed mode if asked, while `stream` captures in `mode`.
struct Outcome {
  CUresult call;
  CUresult end;
};
Outcome DuringCapture(const Gpu& gpu, CUstreamCaptureMode mode, bool relaxed,
                      const std::function<CUresult()>& call) {
  const OwnStream stream;
  const Buffer buffer(4096);
  Outcome outcome = {};
  REQUIRE(cuStreamBeginCapture(stream, mode) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8Async(buffer.at(), 1, 4096, stream) == CUDA_SUCCESS);
  std::thread other([&] {
    cuCtxSetCurrent(gpu.context());
    auto thread_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (relaxed) cuThreadExchangeStreamCaptureMode(&thread_mode);
    outcome.call = call();
  });
  other.join();
  CUgraph graph = nullptr;
  outcome.end = cuStreamEndCapture(stream, &graph);
  REQUIRE((graph != nullptr) == (outcome.end == CUDA_SUCCESS));
  if (graph != nullptr) cuGraphDestroy(graph);
  return outcome;
}

CUresult VmmCycle() {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle handle = 0;
  for (const CUresult r :
       {cuMemAddressReserve(&at, 2_MiB, 0, 0, 0), cuMemCreate(&handle, 2_MiB, &prop, 0),
        cuMemMap(at, 2_MiB, 0, handle, 0), cuMemSetAccess(at, 2_MiB, &access, 1),
        cuMemUnmap(at, 2_MiB), cuMemRelease(handle), cuMemAddressFree(at, 2_MiB)})
    if (r != CUDA_SUCCESS) return r;
  return CUDA_SUCCESS;
}

CUresult AllocateAndFree() {
  CUdeviceptr at = 0;
  const CUresult result = cuMemAlloc(&at, 4_MiB);
  return result == CUDA_SUCCESS ? cuMemFree(at) : result;
}

CUresult AllocateInPool() {
  CUstream own = nullptr;
  cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
  CUdeviceptr at = 0;
  CUresult result = cuMemAllocAsync(&at, 4096, own);
  if (result == CUDA_SUCCESS) result = cuMemFreeAsync(at, own);
  cuStreamDestroy(own);
  return result;
}

CUresult CopyOnOwnStream(CUdeviceptr from) {
  char bytes[1024];
  CUstream own = nullptr;
  cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
  CUresult result = cuMemcpyDtoHAsync(bytes, from, sizeof bytes, own);
  if (result == CUDA_SUCCESS) result = cuStreamSynchronize(own);
  cuStreamDestroy(own);
  return result;
}

}  // namespace

TEST_CASE("waiting for the context fails and ends a capture of another thread in every mode") {
  const Gpu gpu;
  for (const auto mode : kModes) {
    for (const bool relaxed : {false, true}) {
      const auto sync = DuringCapture(gpu, mode, relaxed, [] { return cuCtxSynchronize(); });
      REQUIRE(sync.call == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
      REQUIRE(sync.end == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      const auto record = DuringCapture(gpu, mode, relaxed, [&] {
        const OwnEvent event;
        return cuCtxRecordEvent(gpu.context(), event);
      });
      REQUIRE(record.call != CUDA_SUCCESS);
      REQUIRE(record.end == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
  }
}

TEST_CASE("virtual memory calls and memory info leave captures alone in every mode") {
  const Gpu gpu;
  for (const auto mode : kModes) {
    for (const bool relaxed : {false, true}) {
      const auto cycle = DuringCapture(gpu, mode, relaxed, VmmCycle);
      REQUIRE(cycle.call == CUDA_SUCCESS);
      REQUIRE(cycle.end == CUDA_SUCCESS);
      const auto info = DuringCapture(gpu, mode, relaxed, [] {
        size_t free = 0, total = 0;
        return cuMemGetInfo(&free, &total);
      });
      REQUIRE(info.call == CUDA_SUCCESS);
      REQUIRE(info.end == CUDA_SUCCESS);
    }
  }
}

TEST_CASE(
    "allocating, or waiting for a stream, ends a global capture unless the thread is relaxed") {
  const Gpu gpu;
  const Buffer source(1024);
  const std::function<CUresult()> calls[] = {AllocateAndFree, AllocateInPool,
                                             [&] { return CopyOnOwnStream(source.at()); }};
  for (const auto& call : calls) {
    for (const auto mode : kModes) {
      for (const bool relaxed : {false, true}) {
        const bool fatal = mode == CU_STREAM_CAPTURE_MODE_GLOBAL && !relaxed;
        const auto outcome = DuringCapture(gpu, mode, relaxed, call);
        REQUIRE((outcome.call != CUDA_SUCCESS) == fatal);
        REQUIRE(outcome.end == (fatal ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS));
      }
    }
  }
}

TEST_CASE("a relaxed thread drains by freeing native memory or by an event, captures alone") {
  const Gpu gpu;
  const OwnStream busy;
  const OwnEvent event(CU_EVENT_DISABLE_TIMING);
  CUdeviceptr small = 0;
  REQUIRE(cuMemAlloc(&small, 4096) == CUDA_SUCCESS);
  Spin(busy, 50);
  const auto by_free = DuringCapture(gpu, CU_STREAM_CAPTURE_MODE_GLOBAL, true, [&] {
    const CUresult result = cuMemFree(small);
    return result == CUDA_SUCCESS ? cuStreamQuery(busy) : result;
  });
  REQUIRE(by_free.call == CUDA_SUCCESS);
  REQUIRE(by_free.end == CUDA_SUCCESS);
  Spin(busy, 50);
  const auto by_event = DuringCapture(gpu, CU_STREAM_CAPTURE_MODE_GLOBAL, true, [&] {
    const CUresult result = cuEventRecord(event, busy);
    return result == CUDA_SUCCESS ? cuEventSynchronize(event) : result;
  });
  REQUIRE(by_event.call == CUDA_SUCCESS);
  REQUIRE(by_event.end == CUDA_SUCCESS);
}

TEST_CASE("a legacy-stream call ends the capture of a blocking stream") {
  const Gpu gpu;
  const OwnStream stream(CU_STREAM_DEFAULT);
  const Buffer buffer(4096);
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  REQUIRE(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8Async(buffer.at(), 1, 16, nullptr) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  REQUIRE(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CUstreamCaptureStatus status;
  REQUIRE(cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS);
  REQUIRE(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  REQUIRE(cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS);
  REQUIRE(status == CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_CASE("a synchronous copy is a legacy-stream call and no more than that") {
  const Gpu gpu;
  const Buffer buffer(4096);
  char host[16] = {};
  for (const auto mode : kModes) {
    const auto copy = DuringCapture(gpu, mode, false,
                                    [&] { return cuMemcpyHtoD(buffer.at(), host, sizeof host); });
    REQUIRE(copy.call == CUDA_SUCCESS);
    REQUIRE(copy.end == CUDA_SUCCESS);
  }
}

TEST_CASE("asking for an event of a capture ends the capture, also from a relaxed thread") {
  const Gpu gpu;
  for (const auto& ask : {cuEventQuery, cuEventSynchronize}) {
    const OwnStream stream;
    const OwnEvent event;
    REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    REQUIRE(cuEventRecord(event, stream) == CUDA_SUCCESS);
    REQUIRE(ask(event) == CUDA_ERROR_CAPTURED_EVENT);
    CUgraph graph = nullptr;
    REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
}

TEST_CASE("ending a capture on the wrong thread ends it without a graph") {
  const Gpu gpu;
  CUgraph graph = nullptr;
  const OwnStream stream;
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  CUresult ended = CUDA_SUCCESS;
  std::thread other([&] {
    cuCtxSetCurrent(gpu.context());
    ended = cuStreamEndCapture(stream, &graph);
  });
  other.join();
  REQUIRE(ended == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_ILLEGAL_STATE);
}
