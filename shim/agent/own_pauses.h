// OwnPauses: pauses and resumes that the program asks for itself, as it does with
// torch_memory_saver. They run on the operation thread, between the daemon's requests, at an open
// gate, and need no daemon.
#pragma once

#include <cuda.h>

#include <atomic>
#include <string_view>

#include "shim/agent/backup_file.h"
#include "shim/agent/operations.h"
#include "shim/heap/heap.h"
#include "shim/heap/ledger_writer.h"
#include "shim/pause/freezer.h"

namespace parkade::shim {

class OwnPauses {
 public:
  // All outlive it.
  OwnPauses(Heap& heap, Freezer& freezer, Operations& operations, LedgerWriter& ledger);

  // Null before the first context, in a forked child until it makes its own, and where the shim
  // steps aside.
  static OwnPauses* Live() { return live_.load(std::memory_order_acquire); }
  static void SetLive(OwnPauses* live) { live_.store(live, std::memory_order_release); }

  // What was allocated in regions under `tag` (empty: any) leaves HBM, each allocation for the
  // place that its region named, or comes back to its addresses. What is there already stays;
  // nothing to do is success. Waits for the GPU's work and for captures, 30 s at most, and while
  // somebody else has paused the process. On an error, which is logged, everything is as it was, or
  // Resume ends what a pause has left: CUDA_ERROR_OUT_OF_MEMORY for want of GPU memory in a resume,
  // or of host memory; STREAM_CAPTURE_UNSUPPORTED and NOT_READY when captures or work do not end in
  // time; OPERATING_SYSTEM for want of disk space or a directory; SYSTEM_NOT_READY at a gate that
  // was told to refuse; UNKNOWN; or what the driver said. Application threads, outside the gate.
  CUresult Pause(std::string_view tag) { return Run(Direction::kOut, tag); }
  CUresult Resume(std::string_view tag) { return Run(Direction::kIn, tag); }

  const Heap& heap() const { return heap_; }

  // In a forked child. Nothing else of this object may be used there.
  void AbandonAfterFork() { file_.AbandonAfterFork(); }

 private:
  enum class Direction { kOut, kIn };
  class Work;

  CUresult Run(Direction direction, std::string_view tag);
  // Operation thread.
  Result<void> MoveOut(const Wanted& wanted);
  Result<void> Commit(const Wanted& wanted);
  Result<void> MoveIn(const Wanted& wanted);
  void WarnOfMemoryFile();

  static std::atomic<OwnPauses*> live_;  // release: it is made

  Heap& heap_;
  Freezer& freezer_;
  Operations& operations_;
  LedgerWriter& ledger_;
  BackupFile file_;  // operation thread
};

}  // namespace parkade::shim
