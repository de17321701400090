// Freezer: one process's pause and resume, step by step, with the undo of each step.
//
// Knows gate, drain, heap and mover; does not know the socket. The agent calls it on its operation
// thread, one call at a time; only RequestAbort comes from elsewhere.
#pragma once

#include <atomic>
#include <span>

#include "common/fd.h"
#include "common/result.h"
#include "proto/wire.h"
#include "shim/cuda/driver.h"
#include "shim/heap/heap.h"
#include "shim/heap/ledger_writer.h"

namespace parkade::shim {

class HostPool;
class Drain;

// Where Commit may put bytes; see wire::Commit. Descriptors stay open until the next Commit
// replaces them or a Resume has ended.
struct EvictionPlan {
  Bytes host_bytes = 0;
  Bytes disk_bytes = 0;
  Bytes chunk_bytes = 256_MiB;
  wire::Policy policy = wire::Policy::kHost;
  std::span<const wire::TagPolicy> tags;
  std::span<Fd> files;
};

class Freezer {
 public:
  // All outlive it.
  Freezer(const Driver& driver, Heap& heap, LedgerWriter& ledger, HostPool& pool, Drain& drain);
  ~Freezer();

  // What a call did. `stats` is filled as far as it went, also on error; `already` when the process
  // was in the state asked for.
  struct Outcome {
    Result<void> result;
    wire::Stats stats{};
    bool already = false;
    int device = -1;  // that the error is about
  };

  // kRunning -> kPrepared: gate closed, GPU idle, nothing moved, stats.pausable_bytes exact. On
  // error kRunning, gate open: CAPTURE_ACTIVE, BUSY (message says device and how long),
  // CUDA_<name>. Already kPaused: already. kPartlyMoved: FAILED_PRECONDITION (BUSY), resume first.
  Outcome Prepare(uint64_t op_id, Deadline drain_by);

  // kPrepared -> kPaused. On error every byte is back and the gate open (kRunning); when even that
  // is impossible for want of HBM, kPartlyMoved with the gate closed: Resume finishes it.
  Outcome Commit(uint64_t op_id, const EvictionPlan& plan);

  // kPrepared -> kRunning. Nothing to do when running or paused.
  Outcome Abort();

  // Any thread: a Commit under way stops at its next chunk and undoes itself (CANCELLED).
  void RequestAbort() { abort_requested_.store(true, std::memory_order_release); }

  // kPaused or kPartlyMoved -> kRunning: creates all handles, then maps, copies in, verifies, opens
  // the gate. On error the process stays paused with whole backups: GPU_MEMORY (message has needed
  // and free bytes), BACKUP_MISSING, CHECKSUM. Already kRunning: already.
  Outcome Resume(uint64_t op_id);

 private:
  std::atomic<bool> abort_requested_{false};
};

}  // namespace parkade::shim
