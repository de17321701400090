// Queues copies and waits for them without burning a processor.
#include "shim/pause/copy_lane.h"

#include <algorithm>
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
  return Record();
}

Result<void> CopyLane::Record() {
  const CUevent event = events_[(oldest_ + in_flight_) % kDepth];
  const CUresult result = driver_.event_record(event, stream_);
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "recording an event");
  ++in_flight_;
  return {};
}

Result<void> CopyLane::QueueFill(CUdeviceptr base, std::span<const Extent> extents,
                                 const uint64_t pattern[2]) {
  for (const Extent& extent : extents) {
    const CUresult result = Fill(base + extent.offset, extent.bytes, pattern);
    if (result == CUDA_SUCCESS) continue;
    return CudaError(driver_, result, "filling 0x%llx", (unsigned long long)(base + extent.offset));
  }
  return Record();
}

// A word of 4 bytes is the driver's to repeat; a longer one is copied, and what there is then
// doubled until all is full, which needs no kernel of ours.
CUresult CopyLane::Fill(CUdeviceptr to, Bytes bytes, const uint64_t pattern[2]) {
  const auto word = uint32_t(pattern[0]);
  if (pattern[0] == pattern[1] && pattern[0] >> 32 == word) {
    return driver_.memset_d32_async(to, word, bytes / sizeof word, stream_);
  }
  constexpr Bytes kPattern = 2 * sizeof *pattern;
  CUresult result = driver_.memcpy_htod_async(to, pattern, kPattern, stream_);
  for (Bytes done = kPattern; result == CUDA_SUCCESS && done < bytes;) {
    const Bytes more = std::min(done, bytes - done);
    result = driver_.memcpy_dtod_async(to + done, to, more, stream_);
    done += more;
  }
  return result;
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
