// WriteLane: the thread that takes updated buckets out of slots and writes them where they belong,
// by the crash rule of common/store/records.h; it owns the state file.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "shim/kernels/store_kernels.h"
#include "shim/libc/thread.h"
#include "shim/stream/disk_lane.h"
#include "shim/stream/lane_pass.h"
#include "shim/stream/slot_ring.h"
#include "shim/stream/tie_file.h"

namespace parkade::shim {

class WriteLane {
 public:
  // Both outlive it.
  WriteLane(StreamTools& tools, SlotRing& ring);
  // SlotRing::Stop comes first.
  ~WriteLane() { thread_.Join(); }

  Result<void> Start();

 private:
  struct Course {
    StreamJob job;
    uint32_t file = 0;
    store::BucketState state;
    Bytes next = 0, end = 0;
    uint64_t to_copy = 0;   // parts begun that have not left the device
    uint64_t to_write = 0;  // parts begun that are not written
    bool copied = false;    // its slot has been given up
  };

  static void Run(void* self);
  void RunAll();
  Result<void> Work();
  Result<void> AwaitUpdate(const StreamJob& job);
  Result<void> Begin(const StreamJob& job);
  Result<void> LookAtFindings(const StreamJob& job, StoreFindings* findings);
  Result<void> CopyToHost(const StreamJob& job);
  Result<void> Move();
  Result<void> Settle();
  Result<void> Written(const StreamJob& job, const store::BucketState& state);
  bool idle() const { return courses_.empty() && lane_.idle(); }

  StreamTools& tools_;
  SlotRing& ring_;
  DiskLane lane_;
  DiskTurn::Share turn_;
  LanePass pass_;
  std::unique_ptr<TieFile> ties_;
  HostBlock findings_;
  std::deque<Course> courses_;
  uint64_t step_ = store::kNoStep;  // whose intent is in the state file
  Thread thread_;                   // last
};

}  // namespace parkade::shim
