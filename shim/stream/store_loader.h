// StoreLoader: puts saved or imported buckets where a store's buckets lie, and the weights that
// follow from them into the application's tensors.
#pragma once

#include <functional>
#include <vector>

#include "common/result.h"
#include "shim/pause/copy_lane.h"
#include "shim/stream/bucket_work.h"
#include "shim/stream/stream_tools.h"

namespace parkade::shim {

// One thread, which has the store's context current and is in relaxed capture mode, while no step
// is open or being written: the state file is its own meanwhile.
class StoreLoader {
 public:
  // Makes a bucket's saved bytes, and says its ties and the sum of its weights.
  using MakeBucket =
      std::function<Result<void>(uint32_t bucket, std::vector<uint8_t>&, store::BucketState&)>;

  // Both outlive it.
  StoreLoader(StreamTools& tools, BucketWork& work)
      : tools_(tools), work_(work), lane_(tools.driver, CopyLane::Direction::kIn) {}
  ~StoreLoader();

  // Loads every bucket; the store is then at step `step`. Every bucket's state. On an error the
  // store is as it was, not filled, or its files are half filled, which its state file says; some
  // of the weights may have been written. Errors as `make`, StateFile, OsError, CopyLane::Queue.
  Result<std::vector<store::BucketState>> Load(uint64_t step, const MakeBucket& make);

 private:
  Result<void> Open();
  Result<void> Place(uint32_t bucket, const std::vector<uint8_t>& bytes, store::BucketState& state);
  Result<void> WriteFile(uint32_t bucket, const std::vector<uint8_t>& bytes, uint32_t file);
  Result<void> CopyToHost(uint32_t bucket, const std::vector<uint8_t>& bytes, uint32_t ties);
  Result<void> WriteWeights(uint32_t bucket, const std::vector<uint8_t>& bytes);
  // A piece's weights as its tensor has them.
  void Append(const store::Bucket& bucket, const store::Piece& piece,
              const std::vector<uint8_t>& bytes, std::vector<char>& weights);
  Result<void> CopyIn(CUdeviceptr to, const std::vector<char>& bytes);

  StreamTools& tools_;
  BucketWork& work_;
  CopyLane lane_;
  HostBlock pinned_;
  std::vector<float> values_;  // of a bucket's main, by position
  char* aligned_ = nullptr;    // of kPart: files may be open for direct I/O
};

}  // namespace parkade::shim
