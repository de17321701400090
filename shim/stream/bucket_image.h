// BucketImage: a bucket's saved bytes, part by part, as a checkpoint has them: from its live file
// or host memory, and for lo16 with the weights out of the application's tensors.
#pragma once

#include <vector>

#include "common/result.h"
#include "shim/pause/copy_lane.h"
#include "shim/stream/bucket_work.h"
#include "shim/stream/stream_tools.h"

namespace parkade::shim {

// One thread, which has the store's context current and is in relaxed capture mode. No step writes
// the bucket meanwhile, nor its weights.
class BucketImage {
 public:
  // `tools` outlive it. Where weights are is asked now: a step may set other tensors meanwhile.
  BucketImage(const StreamTools& tools, const BucketWork& work);

  // Memory for the parts. Errors as HostPool::Take, and CopyLane::Open.
  Result<void> Open();
  // From now on it is about this bucket. DATA_LOSS where it lies in host memory and its ties are
  // more than it says.
  Result<void> Begin(uint32_t bucket, const store::BucketState& state);
  // Set bits of its tie map.
  uint32_t ties() const { return state_.ties; }
  // Makes bytes [at, at + bytes) of the image, multiples of 4096, kHashBlock at most. `to` is as
  // MapPages gives it. As OsError, and CopyLane::Queue.
  Result<void> Read(Bytes at, Bytes bytes, char* to);
  // Of the bucket's area of weights alone: bytes [at, at + bytes) of it.
  Result<void> ReadWeights(Bytes at, Bytes bytes, char* to);

 private:
  Result<void> ReadFile(Bytes at, Bytes bytes, char* to);
  void ReadHost(Bytes at, Bytes bytes, char* to);
  void CopyHost(Bytes at, Bytes bytes, char* to) const;

  const StreamTools& tools_;
  std::vector<CUdeviceptr> weights_;  // by entry
  CopyLane lane_;
  HostBlock pinned_;
  uint32_t bucket_ = 0;
  store::BucketState state_;
  std::vector<uint8_t> packed_ties_;  // of a bucket in host memory, where they are bits
};

}  // namespace parkade::shim
