// DiskLane: one direction's bytes between the disk and the GPU, through a few blocks of host
// memory. The two lanes stand on it; it knows blocks, copies and requests, and no buckets' states.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "shim/pause/copy_lane.h"
#include "shim/pause/disk_stage.h"
#include "shim/pause/stage_blocks.h"
#include "shim/stream/slot_ring.h"
#include "shim/stream/stream_tools.h"

namespace parkade::shim {

// One thread, which has the context current and is in relaxed capture mode.
class DiskLane {
 public:
  using Direction = CopyLane::Direction;

  // A part of a bucket on its way.
  struct Part {
    uint64_t owner;      // the caller's number for what it belongs to
    CUdeviceptr device;  // where it is in the slot
    FilePart file;
  };

  DiskLane(StreamTools& tools, Direction direction) : tools_(tools), direction_(direction) {}
  // Waits for what is in flight.
  ~DiskLane() { Close(); }

  // Makes what is not there yet. Errors as StageBlocks::Make and CopyLane::Open.
  Result<void> Open();
  // Waits for what is in flight, a minute for the disk, and forgets it.
  void Close();

  // Most bytes of a part.
  Bytes block_bytes() const { return blocks_->block_bytes(); }
  bool CanBegin() const { return blocks_->has_free() && !copies_->full(); }
  // Begins to read the part and copy it in, or to copy it out and write it. Only when CanBegin.
  Result<void> Begin(const Part& part);
  // Waits until something has moved on. Something is in flight.
  Result<void> Advance();
  bool idle() const { return copying_.empty() && (disk_ == nullptr || disk_->idle()); }

  // What has come to pass since the last call: parts whose copy in has been queued, or that have
  // left the device; and, out, parts that are written.
  std::vector<uint64_t> TakeCopied() { return std::exchange(copied_, {}); }
  std::vector<uint64_t> TakeWritten() { return std::exchange(written_, {}); }

  // Copies between the device and memory that is not the lane's, and waits. `host` is pinned.
  Result<void> CopyNow(CUdeviceptr device, char* host, Bytes bytes);
  // Starts such a copy, waiting for room. CopyNow's memory rules; WaitCopies ends it.
  Result<void> StartCopy(CUdeviceptr device, char* host, Bytes bytes);
  Result<void> WaitCopies();
  // Starts such copies of a bucket that is placed in host memory: of the first `end` bytes of its
  // segments, and of its ties.
  Result<void> StartHostBucket(const StreamJob& job, Bytes end);
  // Starts to zero device memory, of a multiple of 16 bytes.
  Result<void> StartZero(CUdeviceptr device, Bytes bytes);
  CUstream stream() const { return copies_->stream(); }
  // After the last write of a step.
  Result<void> Flush() { return disk_ == nullptr ? Result<void>() : disk_->Flush(); }

 private:
  static constexpr uint32_t kNoBlock = UINT32_MAX;  // a copy of StartCopy

  Result<void> EndOldestCopy();
  Result<void> EndRequest();
  Result<void> MakeRoom();

  StreamTools& tools_;
  const Direction direction_;
  std::unique_ptr<StageBlocks> blocks_;
  std::unique_ptr<CopyLane> copies_;
  std::unique_ptr<DiskStage> disk_;
  std::vector<Part> parts_;       // by block
  std::deque<uint32_t> copying_;  // blocks, in the order of the copies
  std::vector<uint64_t> copied_;
  std::vector<uint64_t> written_;
};

}  // namespace parkade::shim
