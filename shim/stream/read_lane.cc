// Reads ahead as far as there are free slots.
#include "shim/stream/read_lane.h"

#include <algorithm>
#include <utility>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {

ReadLane::ReadLane(StreamTools& tools, SlotRing& ring)
    : tools_(tools), ring_(ring), lane_(tools, DiskLane::Direction::kIn), turn_(tools.turn) {}

Result<void> ReadLane::Start() {
  auto started = Thread::Start("parkade-read", Run, this);
  if (!started.ok()) return started.error();
  thread_ = std::move(*started);
  return {};
}

void ReadLane::Run(void* self) { static_cast<ReadLane*>(self)->RunAll(); }

void ReadLane::RunAll() {
  const ScopedContext current(tools_.driver, tools_.context);
  const ScopedRelaxedCapture relaxed(tools_.driver);
  while (!ring_.stopping()) {
    const Result<void> worked = Work();
    if (worked.ok()) continue;
    ring_.FailStep(worked.error());
    if (const auto torn = ring_.torn()) tools_.sheet.Tears(*torn);
    lane_.Close();
    std::vector<StreamJob> jobs;
    for (const Course& course : courses_) jobs.push_back(course.job);
    turn_.End();
    courses_.clear();
    pass_.Leave();
    ring_.Forget(jobs);
  }
  lane_.Close();
}

// Until the end, or an error.
Result<void> ReadLane::Work() {
  for (;;) {
    const bool border = courses_.empty() || courses_.back().next == courses_.back().end;
    // One bucket at a time where reads and writes take turns, and none while a pause waits.
    const bool waits = !idle() && (LanePass::Wanted() || tools_.turn.phased());
    if (border && !waits) {
      if (idle()) pass_.Leave();
      const auto job = ring_.TakeRead(idle() ? SlotRing::Wait::kForOne : SlotRing::Wait::kLook);
      if (job) {
        pass_.Enter();
        if (auto r = Begin(*job); !r.ok()) {
          courses_.push_back({*job, 0, {}, 0, 0, 0});
          return r;
        }
        continue;
      }
      if (idle()) return {};  // the end
    }
    if (auto r = Move(); !r.ok()) return r;
  }
}

Result<void> ReadLane::Begin(const StreamJob& job) {
  if (auto r = lane_.Open(); !r.ok()) return r;
  if (!tools_.in_host[job.bucket].empty()) return BeginFromHost(job);
  const store::Bucket& bucket = tools_.bucket(job.bucket);
  const CUdeviceptr base = tools_.slots[job.slot].base;
  Course course{job, 0, ring_.bucket(job.bucket), 0, SegmentsEnd(bucket), 0};
  course.file = course.state.file;
  if (course.state.main_only) {
    // The other segments are zero, and not in the file yet.
    const Bytes rest = course.end;
    course.end = RoundUp(bucket.segments[0].bytes, store::kFileAlign);
    if (auto r = lane_.StartZero(base + course.end, rest - course.end); !r.ok()) return r;
  }
  turn_.Begin();
  courses_.push_back(course);
  return {};
}

Result<void> ReadLane::BeginFromHost(const StreamJob& job) {
  if (auto r = lane_.StartHostBucket(job, SegmentsEnd(tools_.bucket(job.bucket))); !r.ok())
    return r;
  const StreamSlot& slot = tools_.slots[job.slot];
  const CUresult result = tools_.driver.event_record(slot.ready, lane_.stream());
  if (result != CUDA_SUCCESS) return CudaError(tools_.driver, result, "marking a bucket as read");
  ring_.HasRead(job);
  return {};
}

// Begins what can be begun, then waits for one thing to move on.
Result<void> ReadLane::Move() {
  if (!courses_.empty()) {
    Course& course = courses_.back();
    while (course.next < course.end && lane_.CanBegin()) {
      const Bytes bytes = std::min(lane_.block_bytes(), course.end - course.next);
      const DiskLane::Part part{course.job.bucket,
                                tools_.slots[course.job.slot].base + course.next,
                                {course.file, course.next, bytes}};
      if (auto r = lane_.Begin(part); !r.ok()) return r;
      course.next += bytes;
      tools_.read_bytes += bytes;
      ++course.under_way;
    }
  }
  if (!lane_.idle()) {
    if (auto r = lane_.Advance(); !r.ok()) return r;
  }
  return Settle();
}

Result<void> ReadLane::Settle() {
  for (const uint64_t bucket : lane_.TakeCopied()) {
    for (Course& course : courses_) {
      if (course.job.bucket == bucket) --course.under_way;
    }
  }
  while (!courses_.empty()) {
    const Course& course = courses_.front();
    if (course.under_way != 0 || course.next < course.end) return {};
    if (auto r = Finish(course); !r.ok()) return r;
    const StreamJob job = course.job;
    courses_.pop_front();
    turn_.End();
    ring_.HasRead(job);
  }
  return {};
}

Result<void> ReadLane::Finish(const Course& course) {
  const StreamSlot& slot = tools_.slots[course.job.slot];
  const store::Bucket& bucket = tools_.bucket(course.job.bucket);
  if (tools_.layout.lo16() >= 0) {
    const CUdeviceptr bits = slot.ties;
    if (course.state.ties == 0) {
      if (auto r = lane_.StartZero(bits, store::TieBitsBytes(bucket.numel)); !r.ok()) return r;
    } else {
      if (ties_ == nullptr) {
        auto made = TieFile::Make(tools_);
        if (!made.ok()) return made.error();
        ties_ = std::move(*made);
      }
      auto read = ties_->Read(course.job.bucket, course.file, course.state.ties);
      if (!read.ok()) return read;
      auto copied = lane_.CopyNow(bits, ties_->bits(), store::TieBitsBytes(bucket.numel));
      if (!copied.ok()) return copied;
    }
  }
  const CUresult result = tools_.driver.event_record(slot.ready, lane_.stream());
  if (result != CUDA_SUCCESS) return CudaError(tools_.driver, result, "marking a bucket as read");
  return {};
}

}  // namespace parkade::shim
