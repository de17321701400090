// Takes the freezer through a pause or resume of the program's own.
#include "shim/agent/own_pauses.h"

#include <optional>
#include <string>
#include <utility>

#include "common/log.h"
#include "shim/heap/saver_settings.h"
#include "shim/pause/gate.h"

namespace parkade::shim {
namespace {

constexpr uint64_t kDrainMs = 30'000;

CUresult ToCuda(const Error& error) {
  if (error.cuda != 0) return CUresult(error.cuda);
  const std::string_view reason = error.reason;
  if (reason == "CAPTURE_ACTIVE") return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (reason == "BUSY") return CUDA_ERROR_NOT_READY;
  if (reason == "HOST_MEMORY" || reason == "MEMLOCK") return CUDA_ERROR_OUT_OF_MEMORY;
  if (error.os_errno != 0 || error.code == Code::kResourceExhausted || reason == "OTHER_FILES") {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  return CUDA_ERROR_UNKNOWN;
}

}  // namespace

constinit std::atomic<OwnPauses*> OwnPauses::live_{nullptr};

// One call of the program's.
class OwnPauses::Work final : public Operations::Task {
 public:
  Work(OwnPauses& own, Direction direction, std::string_view tag)
      : own_(own), direction_(direction) {
    if (!tag.empty()) wanted_.tags.emplace_back(tag);
  }

  // Empty: somebody else holds the process; ask again once it runs.
  const std::optional<Result<void>>& result() const { return result_; }

  void Run() override {
    const Freezer& freezer = own_.freezer_;
    // After a failure nobody else may come: what cannot be done is refused, rather than waited for.
    const bool failed =
        freezer.state() == wire::ProcessState::kFailed || freezer.left_partly_moved();
    if (!freezer.runs_on() && !failed) return;
    result_ = direction_ == Direction::kOut ? own_.MoveOut(wanted_) : own_.MoveIn(wanted_);
  }

 private:
  OwnPauses& own_;
  const Direction direction_;
  Wanted wanted_;
  std::optional<Result<void>> result_;
};

OwnPauses::OwnPauses(Heap& heap, Freezer& freezer, Operations& operations, LedgerWriter& ledger)
    : heap_(heap), freezer_(freezer), operations_(operations), ledger_(ledger) {}

CUresult OwnPauses::Run(Direction direction, std::string_view tag) {
  for (;;) {
    Work work(*this, direction, tag);
    Result<void> result = operations_.Do(work);
    if (result.ok() && !work.result()) {
      // Where the process is held, so is this thread, like any other that has work for the GPU.
      if (!Gate::Enter()) return CUDA_ERROR_SYSTEM_NOT_READY;
      Gate::Leave();
      continue;
    }
    if (result.ok()) result = *work.result();
    if (result.ok()) return CUDA_SUCCESS;
    const Error& e = result.error();
    Log(LogLevel::kError, "%s of %s: %s (%s)", direction == Direction::kOut ? "pause" : "resume",
        tag.empty() ? "all regions" : std::string(tag).c_str(), e.what, e.reason);
    return ToCuda(e);
  }
}

Result<void> OwnPauses::MoveOut(const Wanted& wanted) {
  const Heap::Saved saved = heap_.CountSaved(wanted);
  if (saved.held != 0) {
    ledger_.AddEvent(std::to_string(saved.held) +
                     " bytes stay in HBM in a pause of the program's own: others use them");
  }
  if (!saved.any) return {};
  if (auto ran = operations_.RunHooksBefore(); !ran.ok()) return ran;
  const Freezer::Outcome prepared =
      freezer_.Prepare(Deadline::InMs(kDrainMs),
                       {.mode = wire::GateMode::kOpen, .exported = wire::OnExported::kKeep});
  if (!prepared.result.ok() || prepared.already) return prepared.result;
  const Result<void> moved = Commit(wanted);
  if (!moved.ok() && !SaverSettings::retains()) freezer_.ReleaseUnusedHost();
  return moved;
}

// Prepared: nobody allocates in between, so the figures suffice.
Result<void> OwnPauses::Commit(const Wanted& wanted) {
  EvictionPlan plan;
  plan.chunk_bytes = SaverSettings::chunk();
  plan.elision = wire::Elision::kOff;
  plan.own = wanted;
  Fd file;
  if (const Bytes to_disk = heap_.CountSaved(wanted).disk; to_disk != 0) {
    for (const FilePart& part : heap_.FilePartsOut()) plan.disk_bytes += part.bytes;
    const bool in_use = plan.disk_bytes != 0;
    plan.disk_bytes += to_disk;
    auto reserved = file_.Reserve(SaverSettings::directory(), plan.disk_bytes, in_use);
    if (!reserved.ok()) {
      (void)freezer_.Abort();  // of nothing that has moved
      return reserved.error();
    }
    WarnOfMemoryFile();
    file = std::move(*reserved);
    plan.files = {&file, 1};
  }
  return freezer_.Commit(0, plan).result;
}

Result<void> OwnPauses::MoveIn(const Wanted& wanted) {
  Freezer::Part part;
  part.tags = wanted.tags;
  part.retains = SaverSettings::retains();
  const Freezer::Outcome outcome = freezer_.Resume(0, 0, part);
  if (!outcome.result.ok()) return outcome.result;
  if (!part.retains && !outcome.already) freezer_.ReleaseUnusedHost();
  if (freezer_.state() == wire::ProcessState::kRunning) file_.Close();
  return {};
}

void OwnPauses::WarnOfMemoryFile() {
  if (!file_.is_in_memory()) return;
  ledger_.AddWarning("the directory for the program's own backups is a file system in memory: " +
                     SaverSettings::directory());
}

}  // namespace parkade::shim
