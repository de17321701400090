// What a store leaves as a checkpoint, and is filled from.
#include <utility>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/scoped_context.h"
#include "shim/stream/step_engine.h"

namespace parkade::shim {

Result<void> StepEngine::BeginSave(const std::string& base, store::Manifest manifest,
                                   uint32_t generations, CUstream stream) {
  if (open_) return MakeError(Code::kFailedPrecondition, "STEP_ORDER", "a step is open");
  if (saver_ != nullptr) {
    const auto before = saver_->Await(Deadline::InMs(0));
    if (!before.ok() && before.error().code == Code::kDeadlineExceeded) {
      return MakeError(Code::kFailedPrecondition, "SAVE_UNDER_WAY", "%s", before.error().what);
    }
    saver_.reset();
  }
  if (auto r = ring_->Drain(Deadline::InMs(kStallMs)); !r.ok()) return r;
  if (ring_->committed() == store::kNoStep) {
    return MakeError(Code::kFailedPrecondition, "NOT_FILLED", "the store has not been filled");
  }
  const ScopedContext current(on_.driver, context_);
  const ScopedRelaxedCapture relaxed(on_.driver);
  const CUresult result = on_.driver.stream_synchronize(stream);
  if (result != CUDA_SUCCESS) {
    return CudaError(on_.driver, result, "waiting for the weights that are to be saved");
  }
  manifest.step = ring_->committed();
  manifest.seed = options_.seed;
  manifest.layout = layout_;
  StoreSaver::Wanted wanted{base, std::move(manifest), generations, {}};
  for (uint32_t i = 0; i < layout_.buckets().size(); ++i) {
    wanted.states.push_back(ring_->bucket(i));
  }
  auto begun = StoreSaver::Begin(*tools_, *work_, std::move(wanted));
  if (!begun.ok()) return begun.error();
  saver_ = std::move(*begun);
  return {};
}

Result<StoreSaver::Outcome> StepEngine::AwaitSave(Deadline by) {
  if (saver_ != nullptr) return saver_->Await(by);
  return MakeError(Code::kFailedPrecondition, "NO_SAVE", "no save has been begun");
}

Result<void> StepEngine::Load(uint64_t step, CUstream stream, const StoreLoader::MakeBucket& make) {
  if (open_) return MakeError(Code::kFailedPrecondition, "STEP_ORDER", "a step is open");
  if (auto r = ring_->Drain(Deadline::InMs(kStallMs)); !r.ok()) return r;
  if (ring_->committed() != store::kNoStep) {
    return MakeError(Code::kFailedPrecondition, "STEP_ORDER",
                     "the store is at step %llu: a checkpoint is loaded into a new one",
                     (unsigned long long)ring_->committed());
  }
  const ScopedContext current(on_.driver, context_);
  const ScopedRelaxedCapture relaxed(on_.driver);
  const CUresult result = on_.driver.stream_synchronize(stream);
  if (result != CUDA_SUCCESS) {
    return CudaError(on_.driver, result, "waiting for the weights' users");
  }
  const auto torn = [this, step](const Error& error) {
    ring_->Tear(error, step);
    sheet_.Tears(*ring_->torn());
    return error;
  };
  sheet_.Begins(step, device_bytes_);
  StoreLoader loader(*tools_, *work_);
  auto states = loader.Load(step, make);
  if (!states.ok()) return torn(states.error());
  if (layout_.lo16() >= 0) {
    std::vector<uint64_t> sums;
    for (const store::BucketState& state : *states) sums.push_back(state.weight_sum);
    if (auto r = work_->SetSums(sums, nullptr); !r.ok()) return torn(r.error());
  }
  ring_->Adopt(std::move(*states), step);
  sheet_.Commits(step, tools_->read_bytes, tools_->written_bytes);
  return {};
}

}  // namespace parkade::shim
