// StepEngine: one store, opened, and its steps: a fixed ring of slots, a lane that reads ahead, the
// caller's work in between, and a lane that writes behind.
//
// One thread at a time; only stats() is for any. Memory is ready, and work is queued, in the order
// of the step's stream. What the caller does on the GPU passes the gate, as all work does; a lane
// holds a pass of its own for the length of a bucket.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/store/layout.h"
#include "shim/cuda/contexts.h"
#include "shim/stream/bucket_work.h"
#include "shim/stream/read_lane.h"
#include "shim/stream/slot_memory.h"
#include "shim/stream/slot_ring.h"
#include "shim/stream/store_files.h"
#include "shim/stream/store_loader.h"
#include "shim/stream/store_saver.h"
#include "shim/stream/store_sheet.h"
#include "shim/stream/stream_tools.h"
#include "shim/stream/write_lane.h"

namespace parkade::shim {

class StepEngine {
 public:
  // All outlive it.
  struct Surroundings {
    const Driver& driver;
    const Contexts& contexts;
    HostPool& pool;
    LedgerWriter& ledger;
    MakeEngine make_engine = MakeShimEngine;
  };
  struct Options {
    std::vector<std::string> directories = {};  // none: all is in host memory
    std::string name = "store";
    StoreFiles::Take take = StoreFiles::Take::kFresh;
    bool in_memory_too = false;
    uint32_t slots = 0;         // 0: three, or as the budget allows
    uint64_t bucket_numel = 0;  // 0: as suits
    Bytes device_budget = 0;    // 0: none
    Bytes staging = 64_MiB;     // host memory that bytes pass through, of both lanes
    Bytes chunk = 4_MiB;        // of a request to the disk
    Bytes host_bytes = 0;       // buckets kept in host memory, up to so much; the first ones
    store::Redundancy redundancy = store::Redundancy::kInplace;
    DiskTurn::Schedule schedule = DiskTurn::Schedule::kMixed;
    uint64_t seed = 0;
    bool nearest = false;  // no stochastic rounding
  };
  static constexpr uint32_t kMostSlots = 64;
  static constexpr uint64_t kStallMs = 600'000;  // no wait of the caller's for a lane is longer

  // Under the current context. Errors as Layout::Make, PlanSlots, StoreFiles::Open, StateFile::Open
  // and HostPool::Take; FAILED_PRECONDITION TORN, INTERRUPTED or VOID, with the buckets, where what
  // is kept is not whole.
  static Result<std::unique_ptr<StepEngine>> Open(const Surroundings& surroundings,
                                                  std::vector<store::Entry> entries,
                                                  std::vector<store::Segment> segments,
                                                  const Options& options);
  // Gives an open step up, waits for the last bytes, removes the files unless Keep was called.
  ~StepEngine();

  const store::Layout& layout() const { return layout_; }
  BucketWork& work() { return *work_; }
  const BucketWork& work() const { return *work_; }

  // Begins step `step`, the one after the last: buckets are read from now on. The work on them is
  // for `stream`, which does not capture. GPU_MEMORY for the slots; STEP_ORDER; TORN.
  Result<void> BeginStep(uint64_t step, CUstream stream);
  // Begins to fill the store, which is then at step `step`: buckets have their first segment alone,
  // two at most in HBM; the others are zero.
  Result<void> BeginFill(uint64_t step, CUstream stream);

  // The next bucket, ready in the stream's order: with kViews its views are decoded, of a fill
  // undefined. nullopt: there is no other. DEADLINE_EXCEEDED; the step's error, for as long as it
  // is open: SlotRing::Acquire, WEIGHTS_CHANGED, what disk or driver said.
  enum class Form : uint8_t { kEncoded, kViews };
  Result<std::optional<StreamJob>> Acquire(Deadline by, Form form);
  // In a fill: makes the view of the weights.
  Result<void> Widen(const StreamJob& job);
  // The caller has queued all its work on the views, which become the bucket's values.
  Result<void> Submit(const StreamJob& job);
  // The caller only wanted to look, and has: waits for the stream, and gives the slot back. The
  // step can but be given up.
  Result<void> Release(const StreamJob& job);
  // Of a bucket acquired as kEncoded: updates it.
  Result<void> SubmitAdam(const StreamJob& job, const StoreAdamArgs& adam);
  // All buckets are submitted: weights are ready in the stream's order; bytes are still written.
  Result<void> EndStep();
  // Gives the open step up; waits for the stream. The store is at the step before, or torn. `why`
  // is for those who ask the daemon; null: what has failed in the step, if anything has.
  void AbortStep(const Error* why = nullptr);
  // Waits until the last step is whole where its bytes belong.
  Result<void> Drain(Deadline by);

  // Begins to save the last step as a checkpoint in `base`, beside the steps that follow: a bucket
  // is taken before it changes. Waits until the last step is written, and for `stream`, on which
  // the weights are ready. `manifest` says rank, ranks, set and user. FAILED_PRECONDITION
  // STEP_ORDER: a step is open, or SAVE_UNDER_WAY, NOT_FILLED; errors as StoreSaver::Begin.
  Result<void> BeginSave(const std::string& base, store::Manifest manifest, uint32_t generations,
                         CUstream stream);
  // What became of the last save. As StoreSaver::Await; FAILED_PRECONDITION NO_SAVE.
  Result<StoreSaver::Outcome> AwaitSave(Deadline by);
  // Fills the store, which nothing has filled yet, with buckets that somebody else makes, and the
  // weights, when `stream` is done with them, with what follows. It is then at step `step`; on an
  // error of StoreLoader::Load it is torn. STEP_ORDER: it is filled.
  Result<void> Load(uint64_t step, CUstream stream, const StoreLoader::MakeBucket& make);

  // Of a store on disk alone: its files stay. FAILED_PRECONDITION NOT_ON_DISK.
  Result<void> Keep();
  void AbandonAfterFork();

  // Counts gradients that are not finite, and waits for the stream. Between two steps, or in one
  // before the first bucket.
  Result<uint64_t> LookAtGradients(CUstream stream);

  // What others are told of it.
  StoreSheet& sheet() { return sheet_; }

  bool step_is_open() const { return open_; }
  uint64_t open_step() const { return step_; }
  CUstream stream() const { return stream_; }  // of the open step
  uint64_t committed() const { return ring_->committed(); }
  std::optional<Error> torn() const { return ring_->torn(); }
  struct Stats {
    uint64_t read_bytes, written_bytes, waited_ns;
    Bytes device_bytes, host_bytes, file_bytes;
    uint32_t slots, buckets;
    uint64_t bucket_numel;
  };
  Stats stats() const;

 private:
  StepEngine(const Surroundings& surroundings, store::Layout layout, const Options& options,
             uint32_t slots, CUcontext context);
  // What is in host memory and what in files; the files and the state, and every bucket's.
  Result<std::vector<store::BucketState>> OpenFiles(uint64_t* committed);
  Result<void> OpenBuckets(size_t host_buckets);
  Result<void> OpenState();
  Result<void> MakeHostBuckets();
  Result<void> Begin(uint64_t step, CUstream stream, SlotKind kind);
  Result<void> Ready(SlotKind kind, uint32_t count);
  Result<void> Submitted(const StreamJob& job);
  void ShowSheet(uint64_t committed);

  const Surroundings on_;
  const Options options_;
  const store::Layout layout_;
  const CUcontext context_;
  const uint32_t slots_;
  Shelf<LaneGear> shelf_;
  std::unique_ptr<StoreFiles> disk_;
  DirectFiles files_;
  uint32_t file_count_ = 0;
  store::StateFile state_;
  StoreSheet sheet_;
  std::unique_ptr<StreamTools> tools_;
  std::unique_ptr<BucketWork> work_;
  std::unique_ptr<SlotRing> ring_;
  std::unique_ptr<ReadLane> reader_;
  std::unique_ptr<WriteLane> writer_;
  std::unique_ptr<StoreSaver> saver_;  // of the last save; null: there was none

  SlotKind kind_ = SlotKind::kWhole;  // of the slots that are there
  CUstream stream_ = nullptr;         // of the open step
  uint64_t step_ = 0;                 // likewise
  std::atomic<bool> open_{false};
  bool looked_at_weights_ = false;  // in this step
  bool changed_weights_ = false;    // in this step, which lo16 cannot take back
  std::atomic<Bytes> device_bytes_{0};
  Bytes host_bytes_ = 0;
};

}  // namespace parkade::shim
