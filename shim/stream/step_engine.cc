// Makes a store's parts and takes it through its steps.
#include "shim/stream/step_engine.h"

#include <algorithm>
#include <utility>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/scoped_context.h"
#include "shim/stream/lane_pass.h"

namespace parkade::shim {
namespace {

Error Refused() {
  return MakeError(Code::kUnavailable, "PAUSED", "the process is paused and refuses work");
}

}  // namespace

Result<std::unique_ptr<StepEngine>> StepEngine::Open(const Surroundings& on,
                                                     std::vector<store::Entry> entries,
                                                     std::vector<store::Segment> segments,
                                                     const Options& options) {
  CUcontext context = nullptr;
  if (on.driver.ctx_get_current(&context) != CUDA_SUCCESS || context == nullptr) {
    return MakeError(Code::kFailedPrecondition, "NO_CONTEXT", "no context is current");
  }
  uint64_t numel = 0;
  for (const store::Entry& entry : entries) {
    if (entry.flat_end > entry.flat_begin) numel += RoundUp(entry.flat_end - entry.flat_begin, 32);
  }
  SlotPlan plan{options.slots == 0 ? 3 : options.slots, options.bucket_numel};
  if (options.device_budget != 0) {
    auto planned =
        PlanSlots(segments, numel, options.slots, options.bucket_numel, options.device_budget);
    if (!planned.ok()) return planned.error();
    plan = *planned;
  }
  auto layout = store::Layout::Make(std::move(entries), std::move(segments), plan.bucket_numel);
  if (!layout.ok()) return layout.error();
  if (layout->lo16() > 0) {
    return MakeError(Code::kInvalidArgument, "LO16_FIRST", "main must be first where it is lo16");
  }
  const ScopedRelaxedCapture relaxed(on.driver);
  std::unique_ptr<StepEngine> engine(
      new StepEngine(on, std::move(*layout), options, plan.slots, context));
  uint64_t committed = store::kNoStep;
  auto states = engine->OpenFiles(&committed);
  if (!states.ok()) return states.error();
  if (auto r = engine->MakeHostBuckets(); !r.ok()) return r.error();
  auto work = BucketWork::Make(*engine->tools_, options.seed, options.nearest);
  if (!work.ok()) return work.error();
  engine->work_ = std::move(*work);
  if (engine->layout_.lo16() >= 0 && committed != store::kNoStep) {
    std::vector<uint64_t> sums;
    for (const store::BucketState& state : *states) sums.push_back(state.weight_sum);
    if (auto r = engine->work_->SetSums(sums, nullptr); !r.ok()) return r.error();
  }
  engine->ring_ = std::make_unique<SlotRing>(plan.slots, std::move(*states), committed);
  engine->reader_ = std::make_unique<ReadLane>(*engine->tools_, *engine->ring_);
  engine->writer_ = std::make_unique<WriteLane>(*engine->tools_, *engine->ring_);
  Result<void> started = engine->reader_->Start();
  if (started.ok()) started = engine->writer_->Start();
  if (!started.ok()) return started.error();
  engine->ShowSheet(committed);
  return engine;
}

StepEngine::StepEngine(const Surroundings& on, store::Layout layout, const Options& options,
                       uint32_t slots, CUcontext context)
    : on_(on),
      options_(options),
      layout_(std::move(layout)),
      context_(context),
      slots_(slots),
      shelf_(on.contexts),
      sheet_(on.ledger) {}

void StepEngine::ShowSheet(uint64_t committed) {
  wire::LedgerStore sheet = DescribeStore(options_.name, layout_, options_.directories);
  sheet.step = committed;
  sheet.slots = slots_;
  sheet.bucket_elements = tools_->most_numel;
  sheet.host_bytes = host_bytes_;
  sheet.file_bytes = layout_.live_bytes() - host_bytes_;
  sheet.redundancy = uint32_t(options_.redundancy);
  sheet_.Show(sheet);
}

StepEngine::~StepEngine() {
  saver_.reset();
  if (ring_ != nullptr) {
    if (open_) AbortStep();
    ring_->Stop();
  }
  writer_.reset();
  reader_.reset();
  const ScopedContext current(on_.driver, context_);
  const ScopedRelaxedCapture relaxed(on_.driver);
  work_.reset();
  if (tools_ != nullptr) FreeSlots(*tools_);
  tools_.reset();
}

Result<void> StepEngine::Ready(SlotKind kind, uint32_t count) {
  if (!tools_->slots.empty() && kind == kind_) return {};
  FreeSlots(*tools_);
  device_bytes_ = 0;
  if (auto r = MakeSlots(*tools_, count, tools_->most_numel, kind); !r.ok()) return r;
  device_bytes_ = count * SlotBytes(layout_.segments(), tools_->most_numel, kind);
  kind_ = kind;
  return {};
}

Result<void> StepEngine::BeginStep(uint64_t step, CUstream stream) {
  return Begin(step, stream, SlotKind::kWhole);
}

Result<void> StepEngine::BeginFill(uint64_t step, CUstream stream) {
  return Begin(step, stream, SlotKind::kFirstSegment);
}

Result<void> StepEngine::Begin(uint64_t step, CUstream stream, SlotKind kind) {
  if (open_) return MakeError(Code::kFailedPrecondition, "STEP_ORDER", "a step is open");
  if (auto torn = ring_->torn()) return *torn;
  if (kind != kind_) {
    // Outside the gate, which a lane may be waiting for.
    if (auto r = ring_->Drain(Deadline::InMs(kStallMs)); !r.ok()) return r;
  }
  const WorkPass pass;
  if (!pass) return Refused();
  const ScopedContext current(on_.driver, context_);
  const ScopedRelaxedCapture relaxed(on_.driver);
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  on_.driver.stream_is_capturing(stream, &capturing);
  if (capturing != CU_STREAM_CAPTURE_STATUS_NONE) {
    return MakeError(Code::kFailedPrecondition, "CAPTURING",
                     "a step cannot be captured: its bytes come from outside the GPU");
  }
  const bool fills = kind == SlotKind::kFirstSegment;
  const uint32_t count = fills ? std::min(slots_, 2u) : slots_;
  if (auto r = Ready(kind, count); !r.ok()) return r;
  if (auto r = work_->Upload(stream); !r.ok()) return r;
  if (!fills) tools_->turn.StepBegins(step);
  if (auto r = ring_->Begin(step, count, fills); !r.ok()) return r;
  sheet_.Begins(step, device_bytes_);
  stream_ = stream;
  step_ = step;
  open_ = true;
  looked_at_weights_ = fills || layout_.lo16() < 0;
  changed_weights_ = false;
  return {};
}

Result<std::optional<StreamJob>> StepEngine::Acquire(Deadline by, Form form) {
  auto job = ring_->Acquire(by);
  if (!job.ok() || !*job) return job;
  const WorkPass pass;
  const ScopedContext current(on_.driver, context_);
  const ScopedRelaxedCapture relaxed(on_.driver);
  Result<void> done;
  if (!pass) done = Refused();
  // Pointers may have been set since the step began.
  if (done.ok()) done = work_->Upload(stream_);
  if (done.ok() && !looked_at_weights_) done = work_->CheckWeights(stream_);
  looked_at_weights_ = true;
  if (done.ok() && !(*job)->main_only) {
    const CUevent ready = tools_->slots[(*job)->slot].ready;
    const CUresult result = on_.driver.stream_wait_event(stream_, ready, 0);
    if (result != CUDA_SUCCESS) {
      done = CudaError(on_.driver, result, "waiting for bucket %u", (*job)->bucket);
    } else if (form == Form::kViews) {
      done = work_->Decode(**job, stream_);
    }
  }
  if (done.ok()) return job;
  ring_->FailStep(done.error());
  return done.error();
}

Result<void> StepEngine::Widen(const StreamJob& job) {
  const WorkPass pass;
  if (!pass) return Refused();
  const ScopedContext current(on_.driver, context_);
  const ScopedRelaxedCapture relaxed(on_.driver);
  return work_->Widen(job, stream_);
}

Result<void> StepEngine::Submit(const StreamJob& job) {
  if (saver_ != nullptr) saver_->AwaitBucket(job.bucket);
  const WorkPass pass;
  if (!pass) return Refused();
  const ScopedContext current(on_.driver, context_);
  const ScopedRelaxedCapture relaxed(on_.driver);
  changed_weights_ = true;
  const Result<void> encoded = work_->Encode(job, stream_);
  if (encoded.ok()) return Submitted(job);
  ring_->FailStep(encoded.error());
  return encoded;
}

Result<void> StepEngine::Release(const StreamJob& job) {
  const ScopedContext current(on_.driver, context_);
  const ScopedRelaxedCapture relaxed(on_.driver);
  const CUresult result = on_.driver.stream_synchronize(stream_);
  if (result == CUDA_SUCCESS) return ring_->Release(job.slot);
  const Error error = CudaError(on_.driver, result, "waiting for bucket %u", job.bucket);
  ring_->FailStep(error);
  return error;
}

Result<void> StepEngine::SubmitAdam(const StreamJob& job, const StoreAdamArgs& adam) {
  if (saver_ != nullptr) saver_->AwaitBucket(job.bucket);
  const WorkPass pass;
  if (!pass) return Refused();
  const ScopedContext current(on_.driver, context_);
  const ScopedRelaxedCapture relaxed(on_.driver);
  changed_weights_ = true;
  const Result<void> updated = work_->Adam(job, adam, stream_);
  if (updated.ok()) return Submitted(job);
  ring_->FailStep(updated.error());
  return updated;
}

Result<void> StepEngine::Submitted(const StreamJob& job) {
  const CUresult result = on_.driver.event_record(tools_->slots[job.slot].updated, stream_);
  if (result != CUDA_SUCCESS) {
    const Error error = CudaError(on_.driver, result, "marking bucket %u as updated", job.bucket);
    ring_->FailStep(error);
    return error;
  }
  return ring_->Submit(job.slot);
}

Result<uint64_t> StepEngine::LookAtGradients(CUstream stream) {
  const WorkPass pass;
  if (!pass) return Refused();
  const ScopedContext current(on_.driver, context_);
  const ScopedRelaxedCapture relaxed(on_.driver);
  if (auto r = work_->Upload(stream); !r.ok()) return r.error();
  auto found = work_->Look(stream);
  if (!found.ok()) return found.error();
  uint64_t sum = 0;
  for (const StoreFindings& bucket : *found) sum += bucket.non_finite;
  return sum;
}

Result<void> StepEngine::EndStep() {
  auto ended = ring_->End();
  if (ended.ok()) open_ = false;
  // Nothing is written then, by which it would become known.
  if (ended.ok() && layout_.buckets().empty()) sheet_.Commits(step_, 0, 0);
  return ended;
}

void StepEngine::AbortStep(const Error* why) {
  if (!open_) return;
  const Error given_up = why != nullptr ? *why
                                        : ring_->failure().value_or(MakeError(
                                              Code::kAborted, "ABORTED", "the step was given up"));
  {
    const ScopedContext current(on_.driver, context_);
    const ScopedRelaxedCapture relaxed(on_.driver);
    on_.driver.stream_synchronize(stream_);  // its kernels may be using the slots
  }
  ring_->Abort(changed_weights_ && layout_.lo16() >= 0);
  open_ = false;
  if (const auto torn = ring_->torn()) {
    sheet_.Tears(*torn);
  } else {
    sheet_.GivesUp(given_up);
  }
}

Result<void> StepEngine::Drain(Deadline by) { return ring_->Drain(by); }

Result<void> StepEngine::Keep() {
  if (tools_->state == nullptr) {
    return MakeError(Code::kFailedPrecondition, "NOT_ON_DISK",
                     "only a store that is all on disk can be kept");
  }
  disk_->SetKeeps(true);
  return {};
}

void StepEngine::AbandonAfterFork() {
  if (disk_ != nullptr) disk_->AbandonAfterFork();
}

StepEngine::Stats StepEngine::stats() const {
  return {tools_->read_bytes,
          tools_->written_bytes,
          ring_->waited_ns(),
          device_bytes_,
          host_bytes_,
          layout_.live_bytes() - host_bytes_,
          slots_,
          uint32_t(layout_.buckets().size()),
          tools_->most_numel};
}

}  // namespace parkade::shim
