// CopyLane: a stream of the mover's own on which chunks are copied, first in, first out.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "common/result.h"
#include "shim/cuda/driver.h"
#include "shim/heap/range.h"
#include "shim/pause/shelf.h"

namespace parkade::shim {

// What a lane has of the driver.
class LaneGear {
 public:
  // 16 chunks of 32 MiB last 9 ms on a 55 GB/s link: longer than anything the thread does between
  // two copies.
  static constexpr size_t kDepth = 16;

  // In the current context.
  static Result<std::unique_ptr<LaneGear>> Make(const Driver& driver);
  ~LaneGear();
  void Forget() { stream = nullptr; }

  CUcontext context = nullptr;
  CUstream stream = nullptr;
  std::array<CUevent, kDepth> events{};

 private:
  explicit LaneGear(const Driver& driver) : driver_(driver) {}
  const Driver& driver_;
};

// One thread, which has the lane's context current and is in relaxed capture mode.
class CopyLane {
 public:
  enum class Direction : uint8_t { kOut, kIn };

  CopyLane(const Driver& driver, Direction direction) : driver_(driver), direction_(direction) {}
  // Waits for what is in flight. On any thread, whatever context is current there.
  ~CopyLane();
  Result<void> Open(Shelf<LaneGear>& shelf);
  // Nothing is in flight, nothing has failed: what it has is for the next lane in this context.
  void Keep(Shelf<LaneGear>& shelf);

  bool idle() const { return in_flight_ == 0; }
  bool full() const { return in_flight_ == kDepth; }

  // Starts copying between `extents` of the range at `base` and the bytes at `host`, where they lie
  // one after the other. On error the lane must be drained before the memory is used again.
  Result<void> Queue(CUdeviceptr base, std::span<const Extent> extents, char* host);
  // Starts filling `extents` of the range at `base` with a pattern of 16 bytes; counts as a chunk.
  Result<void> QueueFill(CUdeviceptr base, std::span<const Extent> extents,
                         const uint64_t pattern[2]);
  // On which all of it runs; for events of others behind what is queued.
  CUstream stream() const { return stream_; }
  // Comes to pass when the chunk queued last has been copied.
  CUevent last() const { return events_[(oldest_ + in_flight_ + kDepth - 1) % kDepth]; }
  // Blocks until the oldest chunk has been copied. There is one.
  Result<void> WaitOldest();
  // Waits for everything, also for what a failed Queue has started. Ignores errors: after a lost
  // context nothing runs any more.
  void Drain();

 private:
  static constexpr size_t kDepth = LaneGear::kDepth;

  CUresult Fill(CUdeviceptr to, Bytes bytes, const uint64_t pattern[2]);
  Result<void> Record();

  const Driver& driver_;
  const Direction direction_;
  std::unique_ptr<LaneGear> gear_;  // null: not open
  CUstream stream_ = nullptr;
  std::array<CUevent, kDepth> events_{};
  size_t oldest_ = 0;
  size_t in_flight_ = 0;
};

}  // namespace parkade::shim
