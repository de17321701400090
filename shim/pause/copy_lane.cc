// Queues copies and waits for them without burning a processor.
#include "shim/pause/copy_lane.h"

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {

CopyLane::~CopyLane() {
  if (stream_ == nullptr) return;
  // Without a current context the driver refuses to destroy, and the stream would stay for good.
  const ScopedContext current(driver_, context_);
  Drain();
  for (CUevent event : events_) {
    if (event != nullptr) driver_.event_destroy(event);
  }
  driver_.stream_destroy(stream_);
}

Result<void> CopyLane::Open() {
  // Non-blocking: never in line behind, nor ahead of, the application's legacy stream.
  CUresult result = driver_.ctx_get_current(&context_);
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "asking for the context");
  result = driver_.stream_create(&stream_, CU_STREAM_NON_BLOCKING);
  if (result != CUDA_SUCCESS) {
    stream_ = nullptr;
    return CudaError(driver_, result, "making a stream");
  }
  for (CUevent& event : events_) {
    result = driver_.event_create(&event, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) continue;
    event = nullptr;
    return CudaError(driver_, result, "making an event");
  }
  return {};
}

Result<void> CopyLane::Queue(CUdeviceptr base, std::span<const Extent> extents, char* host) {
  for (const Extent& extent : extents) {
    const CUdeviceptr device = base + extent.offset;
    const CUresult result = direction_ == Direction::kOut
                                ? driver_.memcpy_dtoh_async(host, device, extent.bytes, stream_)
                                : driver_.memcpy_htod_async(device, host, extent.bytes, stream_);
    if (result != CUDA_SUCCESS) {
      return CudaError(driver_, result, "copying %llu bytes %s 0x%llx",
                       (unsigned long long)extent.bytes,
                       direction_ == Direction::kOut ? "from" : "to", (unsigned long long)device);
    }
    host += extent.bytes;
  }
  const CUevent event = events_[(oldest_ + in_flight_) % kDepth];
  const CUresult result = driver_.event_record(event, stream_);
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "recording an event");
  ++in_flight_;
  return {};
}

Result<void> CopyLane::WaitOldest() {
  const CUresult result = driver_.event_synchronize(events_[oldest_]);
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "waiting for a copy");
  oldest_ = (oldest_ + 1) % kDepth;
  --in_flight_;
  return {};
}

void CopyLane::Drain() {
  driver_.stream_synchronize(stream_);
  in_flight_ = 0;
}

}  // namespace parkade::shim
