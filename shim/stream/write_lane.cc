// Writes behind the caller.
#include "shim/stream/write_lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {
namespace {

constexpr uint64_t kMemoryMs = 60'000;

}  // namespace

WriteLane::WriteLane(StreamTools& tools, SlotRing& ring)
    : tools_(tools), ring_(ring), lane_(tools, DiskLane::Direction::kOut), turn_(tools.turn) {}

Result<void> WriteLane::Start() {
  auto started = Thread::Start("parkade-write", Run, this);
  if (!started.ok()) return started.error();
  thread_ = std::move(*started);
  return {};
}

void WriteLane::Run(void* self) { static_cast<WriteLane*>(self)->RunAll(); }

void WriteLane::RunAll() {
  const ScopedContext current(tools_.driver, tools_.context);
  const ScopedRelaxedCapture relaxed(tools_.driver);
  for (;;) {
    const Result<void> worked = Work();
    if (worked.ok()) break;
    ring_.FailWriting(worked.error());
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
Result<void> WriteLane::Work() {
  for (;;) {
    const bool border = courses_.empty() || courses_.back().next == courses_.back().end;
    const bool waits = !idle() && (LanePass::Wanted() || tools_.turn.phased());
    if (border && !waits) {
      if (idle()) pass_.Leave();
      const auto job = ring_.TakeWrite(idle() ? SlotRing::Wait::kForOne : SlotRing::Wait::kLook);
      if (job) {
        Result<void> begun = AwaitUpdate(*job);
        if (begun.ok()) {
          pass_.Enter();
          begun = Begin(*job);
        }
        if (!begun.ok()) {
          courses_.push_back({*job, 0, {}, 0, 0, 0, 0, false});
          return begun;
        }
        continue;
      }
      if (idle()) return {};  // the end
    }
    if (auto r = Move(); !r.ok()) return r;
  }
}

// What is in flight moves on meanwhile; then it waits outside the gate, for as long as the
// application's own work takes.
Result<void> WriteLane::AwaitUpdate(const StreamJob& job) {
  const CUevent updated = tools_.slots[job.slot].updated;
  CUresult result = tools_.driver.event_query(updated);
  while (result == CUDA_ERROR_NOT_READY && !idle()) {
    if (auto r = Move(); !r.ok()) return r;
    result = tools_.driver.event_query(updated);
  }
  if (result == CUDA_ERROR_NOT_READY) {
    pass_.Leave();
    result = tools_.driver.event_synchronize(updated);
  }
  if (result == CUDA_SUCCESS) return {};
  return CudaError(tools_.driver, result, "waiting for the update of bucket %u", job.bucket);
}

Result<void> WriteLane::Begin(const StreamJob& job) {
  if (auto r = lane_.Open(); !r.ok()) return r;
  if (job.step != step_) {
    while (!idle()) {  // the step before ends first
      if (auto r = Move(); !r.ok()) return r;
    }
  }
  StoreFindings findings;
  if (auto r = LookAtFindings(job, &findings); !r.ok()) return r;
  if (job.step != step_) {
    if (tools_.state != nullptr) {
      if (auto r = tools_.state->BeginStep(job.step); !r.ok()) return r;
    }
    step_ = job.step;
  }
  ring_.BeginsWriting();
  Course course{job, 0, {}, 0, 0, 0, 0, false};
  course.state.step = job.step;
  course.state.main_only = job.main_only;
  course.state.weight_sum = findings.weight_sum;
  if (tools_.state != nullptr) {
    auto file = tools_.state->BeginBucket(job.bucket);
    // kRotate: a bucket that is being written gives its old file up when it ends.
    while (!file.ok() && !courses_.empty() && strcmp(file.error().reason, "NO_SPARE_FILE") == 0) {
      if (auto r = Move(); !r.ok()) return r;
      file = tools_.state->BeginBucket(job.bucket);
    }
    if (!file.ok()) return file.error();
    course.file = *file;
  } else {
    course.file = ring_.bucket(job.bucket).file;
  }
  course.state.file = course.file;
  if (!tools_.in_host[job.bucket].empty()) {
    if (auto r = CopyToHost(job); !r.ok()) return r;
    ring_.HasCopied(job);
    course.state.main_only = false;
    return Written(job, course.state);
  }
  const store::Bucket& bucket = tools_.bucket(job.bucket);
  course.end = SegmentsEnd(bucket);
  if (job.main_only) course.end = RoundUp(bucket.segments[0].bytes, store::kFileAlign);
  if (tools_.layout.lo16() >= 0) {
    if (ties_ == nullptr) {
      auto made = TieFile::Make(tools_);
      if (!made.ok()) return made.error();
      ties_ = std::move(*made);
    }
    const CUdeviceptr bits = tools_.slots[job.slot].ties;
    auto copied = lane_.CopyNow(bits, ties_->bits(), store::TieBitsBytes(bucket.numel));
    if (!copied.ok()) return copied;
    auto count = ties_->Write(job.bucket, course.file);
    if (!count.ok()) return count.error();
    course.state.ties = *count;
  }
  turn_.Begin();
  courses_.push_back(course);
  return {};
}

// Before a byte is written.
Result<void> WriteLane::LookAtFindings(const StreamJob& job, StoreFindings* findings) {
  if (!findings_) {
    auto taken = tools_.pool.Take(store::kFileAlign, store::kFileAlign, HostPool::For::kStage,
                                  Deadline::InMs(kMemoryMs));
    if (!taken.ok()) return taken.error();
    findings_ = std::move(*taken);
  }
  const CUdeviceptr from = tools_.slots[job.slot].findings;
  if (auto r = lane_.CopyNow(from, findings_.memory(), sizeof *findings); !r.ok()) return r;
  memcpy(findings, findings_.memory(), sizeof *findings);
  if (findings->unfit == 0) return {};
  return MakeError(Code::kFailedPrecondition, "NON_FINITE",
                   "bucket %u has %u values that its encodings do not hold, such as one that is "
                   "not finite",
                   job.bucket, findings->unfit);
}

Result<void> WriteLane::CopyToHost(const StreamJob& job) {
  const store::Bucket& bucket = tools_.bucket(job.bucket);
  const Bytes end = job.main_only ? bucket.segments[0].bytes : SegmentsEnd(bucket);
  if (auto r = lane_.StartHostBucket(job, end); !r.ok()) return r;
  return lane_.WaitCopies();
}

Result<void> WriteLane::Move() {
  if (!courses_.empty()) {
    Course& course = courses_.back();
    while (course.next < course.end && lane_.CanBegin()) {
      const Bytes bytes = std::min(lane_.block_bytes(), course.end - course.next);
      const DiskLane::Part part{course.job.bucket,
                                tools_.slots[course.job.slot].base + course.next,
                                {course.file, course.next, bytes}};
      if (auto r = lane_.Begin(part); !r.ok()) return r;
      course.next += bytes;
      tools_.written_bytes += bytes;
      ++course.to_copy;
      ++course.to_write;
    }
  }
  if (!lane_.idle()) {
    if (auto r = lane_.Advance(); !r.ok()) return r;
  }
  return Settle();
}

Result<void> WriteLane::Settle() {
  for (const uint64_t bucket : lane_.TakeCopied()) {
    for (Course& course : courses_) {
      if (course.job.bucket == bucket) --course.to_copy;
    }
  }
  for (const uint64_t bucket : lane_.TakeWritten()) {
    for (Course& course : courses_) {
      if (course.job.bucket == bucket) --course.to_write;
    }
  }
  for (auto course = courses_.begin(); course != courses_.end();) {
    const bool begun = course->next == course->end;
    if (begun && course->to_copy == 0 && !course->copied) {
      course->copied = true;
      ring_.HasCopied(course->job);
    }
    if (!begun || course->to_write != 0) {
      ++course;
      continue;
    }
    const Course done = *course;
    if (tools_.state != nullptr) {
      if (auto r = tools_.state->EndBucket(done.job.bucket, done.state); !r.ok()) return r;
    }
    course = courses_.erase(course);
    turn_.End();
    if (auto r = Written(done.job, done.state); !r.ok()) return r;
  }
  return {};
}

Result<void> WriteLane::Written(const StreamJob& job, const store::BucketState& state) {
  if (!ring_.HasWritten(job, state)) return {};
  if (auto r = lane_.Flush(); !r.ok()) return r;
  if (tools_.state != nullptr) {
    if (auto r = tools_.state->CommitStep(); !r.ok()) return r;
  }
  tools_.turn.StepEnds(job.step);
  // First, so that who has waited for the step finds it.
  tools_.sheet.Commits(job.step, tools_.read_bytes, tools_.written_bytes);
  ring_.HasCommitted(job.step);
  return {};
}

}  // namespace parkade::shim
