// Ordinary checkpoints in and out: whole tensors in safetensors files, one bucket of memory at a
// time.
//
// A parameter's first segment, main, is the tensor of its name; the others are NAME.SEGMENT, such
// as "layers.0.weight.exp_avg". The step is the metadata's "step".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.h"
#include "common/store/checkpoint.h"
#include "common/store/records.h"
#include "common/store/reshard_runs.h"
#include "common/store/safetensors.h"

namespace parkade::store {

enum class Moments {
  kRequired,  // every segment of every parameter must be there
  kZero,      // none may be: they start at zero, and the step at 0
};

class TensorImport {
 public:
  // Opens the files and checks that they have all that `wanted`, which outlives the object, needs.
  // FAILED_PRECONDITION NO_SUCH_PARAMETER, OTHER_SHAPE, MISSING_MOMENTS, PARTIAL_MOMENTS (some are
  // there and kZero was asked), TENSOR_TYPE, NO_STEP, RAW_SEGMENT; INVALID_ARGUMENT DUPLICATE_NAME;
  // otherwise as TensorFile::Open.
  static Result<TensorImport> Plan(const std::vector<std::string>& files, const Layout& wanted,
                                   Moments moments);

  uint64_t step() const { return step_; }

  // Makes a bucket's saved bytes, rounding to the nearest. As TensorFile::Read and Encode.
  Result<void> MakeBucket(uint32_t bucket, std::vector<uint8_t>& bytes, BucketState& state) const;

 private:
  // A tensor and the file that has it; null where the moments are zero.
  struct Place {
    const TensorFile* file = nullptr;
    const Tensor* tensor = nullptr;
  };

  Result<void> Locate(Moments moments);
  Result<void> ReadStep(Moments moments);
  Place Find(const std::string& name) const;

  std::vector<TensorFile> files_;
  const Layout* wanted_ = nullptr;
  std::vector<std::vector<Place>> places_;  // by wanted entry and segment
  uint64_t step_ = 0;
};

// All parameters of a checkpoint whole, on one rank, in these segments and buckets of that size (0:
// as suits). Errors as Layout::Make.
Result<Layout> WholeLayout(const Checkpoint& checkpoint, std::vector<Segment> segments,
                           uint64_t bucket_numel = 0);
// Writes a checkpoint of the same step, seed and user bytes into `base`, of one rank and `layout`,
// published whole. Other encodings are converted, to the nearest. As Resharding::Plan and
// MakeBucket, and CheckpointWriter.
Result<void> ConvertCheckpoint(const Checkpoint& checkpoint, const Layout& layout,
                               const std::string& base);

// Writes all parameters of a checkpoint into a new file, in F32: exactly what its bytes decode to.
// Raw segments are left out. The file appears by a rename of `path`.tmp. ALREADY_EXISTS when `path`
// exists; as Resharding::MakeBucket and TensorFile::Write; on error nothing is left.
Result<void> ExportTensors(const Checkpoint& checkpoint, const std::string& path);

}  // namespace parkade::store
