// BucketWork: a store's kernels, and the table of pieces that they read. It launches; when, on
// which slot and in which order is StepEngine's.
#pragma once

#include <memory>
#include <vector>

#include "common/store/layout.h"
#include "shim/cuda/driver.h"
#include "shim/kernels/store_kernels.h"
#include "shim/stream/slot_ring.h"
#include "shim/stream/stream_tools.h"

namespace parkade::shim {

// Where an entry's weights and gradients are: addresses of the element at the entry's flat_begin.
struct EntryTensors {
  CUdeviceptr weight = 0;
  StoreType weight_type = kTypeNone;
  CUdeviceptr gradient = 0;
  StoreType gradient_type = kTypeNone;
};

// One thread at a time, with the store's context current and in relaxed capture mode.
class BucketWork {
 public:
  // Loads the kernels and makes the table. `seed` is the run's, `nearest`: without random bits.
  // UNIMPLEMENTED NO_KERNELS; GPU_MEMORY and other errors of the driver.
  static Result<std::unique_ptr<BucketWork>> Make(StreamTools& tools, uint64_t seed, bool nearest);
  // No kernel of it may be running.
  ~BucketWork();

  // What the next launches work with; the table follows at the next Upload.
  void SetTensors(uint32_t entry, const EntryTensors& tensors);
  const EntryTensors& tensors(uint32_t entry) const { return tensors_[entry]; }
  // In the order of `stream`, behind the kernels that read what was there before.
  Result<void> Upload(CUstream stream);

  // Each in the order of `stream`, on the slot of a job. Those that write zero the findings first.
  Result<void> Decode(const StreamJob& job, CUstream stream);
  Result<void> Encode(const StreamJob& job, CUstream stream);
  Result<void> Adam(const StreamJob& job, StoreAdamArgs adam, CUstream stream);
  // Makes the first segment's view of the weights.
  Result<void> Widen(const StreamJob& job, CUstream stream);
  // Looks at gradients and weights of every bucket and waits: what was found, by bucket.
  Result<std::vector<StoreFindings>> Look(CUstream stream);

  // lo16: the sums of the weights as the store's last owner has left them, by bucket. Waits.
  Result<void> SetSums(const std::vector<uint64_t>& sums, CUstream stream);
  // lo16: whether the weights are what the last Encode or Adam has made of them, and waits.
  // FAILED_PRECONDITION WEIGHTS_CHANGED.
  Result<void> CheckWeights(CUstream stream);

  // A segment's elements in a slot; for kRaw its bytes.
  CUdeviceptr View(const StreamJob& job, uint32_t segment) const;
  // Index of the segment "main", which the weights follow, or -1.
  int main() const { return main_; }

 private:
  BucketWork(StreamTools& tools, bool nearest) : tools_(tools), nearest_(nearest) {}
  Result<void> Load();
  Result<void> MakeTable(uint64_t seed);
  StoreBucketArgs Args(const StreamJob& job) const;
  StoreBucketArgs Pieces(uint32_t bucket) const;
  Result<void> Launch(CUfunction function, const char* name, uint64_t groups, void** arguments,
                      CUstream stream);
  Result<void> KeepSum(const StreamJob& job, CUstream stream);
  Result<void> ClearFindings(CUdeviceptr at, size_t count, CUstream stream);

  StreamTools& tools_;
  const bool nearest_;
  int main_ = -1;
  CUmodule module_ = nullptr;
  CUfunction decode_ = nullptr, encode_ = nullptr, adam_ = nullptr;
  CUfunction widen_ = nullptr, look_ = nullptr;
  std::vector<EntryTensors> tensors_;
  std::vector<StorePiece> pieces_;     // of all buckets, one after the other
  std::vector<uint32_t> first_piece_;  // of each bucket
  bool changed_ = true;
  CUdeviceptr table_ = 0;  // pieces_ on the device; behind them findings of Look, and sums
  CUdeviceptr look_findings_ = 0;
  CUdeviceptr sums_ = 0;
};

}  // namespace parkade::shim
