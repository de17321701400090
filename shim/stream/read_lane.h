// ReadLane: the thread that brings buckets into slots, in the order of a step: from files, or from
// host memory where they are placed there.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "shim/libc/thread.h"
#include "shim/stream/disk_lane.h"
#include "shim/stream/lane_pass.h"
#include "shim/stream/slot_ring.h"
#include "shim/stream/tie_file.h"

namespace parkade::shim {

class ReadLane {
 public:
  // Both outlive it.
  ReadLane(StreamTools& tools, SlotRing& ring);
  // SlotRing::Stop comes first.
  ~ReadLane() { thread_.Join(); }

  Result<void> Start();

 private:
  // A bucket on its way, and how far it has come.
  struct Course {
    StreamJob job;
    uint32_t file = 0;
    store::BucketState state;
    Bytes next = 0, end = 0;  // of the file, to be begun
    uint64_t under_way = 0;   // parts that are not copied yet
  };

  static void Run(void* self);
  void RunAll();
  Result<void> Work();
  Result<void> Begin(const StreamJob& job);
  Result<void> BeginFromHost(const StreamJob& job);
  Result<void> Move();
  Result<void> Settle();
  Result<void> Finish(const Course& course);
  bool idle() const { return courses_.empty() && lane_.idle(); }

  StreamTools& tools_;
  SlotRing& ring_;
  DiskLane lane_;
  DiskTurn::Share turn_;
  LanePass pass_;
  std::unique_ptr<TieFile> ties_;
  std::deque<Course> courses_;  // in the order of the step; the last is being begun
  Thread thread_;               // last
};

}  // namespace parkade::shim
