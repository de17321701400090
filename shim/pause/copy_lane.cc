// Queues copies and waits for them without burning a processor.
#include "shim/pause/copy_lane.h"

#include <utility>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {

Result<std::unique_ptr<LaneGear>> LaneGear::Make(const Driver& driver) {
  std::unique_ptr<LaneGear> gear(new LaneGear(driver));
  // Non-blocking: never in line behind, nor ahead of, the application's legacy stream.
  CUresult result = driver.ctx_get_current(&gear->context);
  if (result != CUDA_SUCCESS) return CudaError(driver, result, "asking for the context");
  result = driver.stream_create(&gear->stream, CU_STREAM_NON_BLOCKING);
  if (result != CUDA_SUCCESS) {
    gear->stream = nullptr;
    return CudaError(driver, result, "making a stream");
  }
  for (CUevent& event : gear->events) {
    result = driver.event_create(&event, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) continue;
    event = nullptr;
    return CudaError(driver, result, "making an event");
  }
  return gear;
}

LaneGear::~LaneGear() {
  if (stream == nullptr) return;
  // Without a current context the driver refuses to destroy, and the stream would stay for good.
  const ScopedContext current(driver_, context);
  for (CUevent event : events) {
    if (event != nullptr) driver_.event_destroy(event);
  }
  driver_.stream_destroy(stream);
}

CopyLane::~CopyLane() {
  if (gear_ == nullptr) return;
  const ScopedContext current(driver_, gear_->context);
  Drain();
}

Result<void> CopyLane::Open(Shelf<LaneGear>& shelf) {
  CUcontext context = nullptr;
  const CUresult result = driver_.ctx_get_current(&context);
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "asking for the context");
  gear_ = shelf.Take(context);
  if (gear_ == nullptr) {
    auto made = LaneGear::Make(driver_);
    if (!made.ok()) return made.error();
    gear_ = std::move(*made);
  }
  stream_ = gear_->stream;
  events_ = gear_->events;
  return {};
}

void CopyLane::Keep(Shelf<LaneGear>& shelf) {
  const CUcontext context = gear_->context;
  shelf.Keep(context, std::move(gear_));
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
  if (gear_ == nullptr) return;  // null is the legacy stream
  driver_.stream_synchronize(stream_);
  in_flight_ = 0;
}

}  // namespace parkade::shim
