// StoreSaver: one save of a store: a thread that brings its buckets into a checkpoint, beside
// steps.
//
// The checkpoint is of the step that was the last when it began. A bucket must have been taken
// before it may change, for which a step waits in AwaitBucket: at most for the copy of the bytes,
// and where the file system makes clones (FICLONE), for nothing but lo16's weights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/deadline.h"
#include "common/mutex.h"
#include "common/store/checkpoint_writer.h"
#include "shim/libc/thread.h"
#include "shim/stream/bucket_image.h"
#include "shim/stream/bucket_work.h"
#include "shim/stream/stream_tools.h"

namespace parkade::shim {

class StoreSaver {
 public:
  struct Wanted {
    std::string base;                        // an absolute path of a directory that is there
    store::Manifest manifest;                // all but its buckets
    uint32_t generations = 0;                // to leave in `base` when it is complete; 0: all
    std::vector<store::BucketState> states;  // of every bucket, at the manifest's step
  };
  struct Outcome {
    bool complete = false;  // with this rank, every rank's part is there
    bool cloned = false;    // bytes were not copied
  };

  // Everything outlives it; no step is open or being written; work on weights is done. Errors as
  // CheckpointWriter::Begin, BucketImage::Open and Thread::Start.
  static Result<std::unique_ptr<StoreSaver>> Begin(const StreamTools& tools, const BucketWork& work,
                                                   Wanted wanted);
  // Gives up what is not done: then there is no checkpoint.
  ~StoreSaver();

  // The caller's thread, outside the gate, before the bucket or its weights change.
  void AwaitBucket(uint32_t bucket);
  // What became of it. DEADLINE_EXCEEDED NOT_SAVED: not yet. The first error otherwise: of the disk
  // as OsError, ABORTED.
  Result<Outcome> Await(Deadline by);

 private:
  StoreSaver(const StreamTools& tools, const BucketWork& work, Wanted wanted,
             store::CheckpointWriter writer);
  static void Run(void* self);
  void RunAll();
  Result<void> SaveAll();
  // Tries to clone every bucket's file. False: they are to be copied.
  bool CloneAll();
  bool Clone(uint32_t bucket, int to);
  // Copies the bucket, or of a clone adds the weights; then it may change.
  Result<void> Take(uint32_t bucket);
  Result<void> Copy(uint32_t bucket, int to);
  Result<void> AddWeights(uint32_t bucket, int to);
  // Reads a clone for its digests.
  Result<void> ReadClone(uint32_t bucket);
  Result<Fd> Create(uint32_t bucket) const;
  Result<void> StopIfTold();

  const StreamTools& tools_;
  const Wanted wanted_;
  BucketImage image_;
  store::CheckpointWriter writer_;
  char* memory_ = nullptr;  // of kHashBlock
  bool cloned_ = false;

  Mutex mu_;  // innermost
  CondVar changed_;
  uint32_t taken_ GUARDED_BY(mu_) = 0;  // buckets that may change: those below
  bool stops_ GUARDED_BY(mu_) = false;
  bool ended_ GUARDED_BY(mu_) = false;
  Result<Outcome> outcome_ GUARDED_BY(mu_) = Outcome();
  Thread thread_;  // last
};

}  // namespace parkade::shim
