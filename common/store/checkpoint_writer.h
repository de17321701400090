// Writes one rank's part of a checkpoint and publishes it whole or not at all.
//
// BASE/step-000000000042/ holds, for each rank, rank-00000.bucket-00000 and so on and
// rank-00000.manifest, which appears by a rename when all before it is on the disk; and COMPLETE,
// which appears in the same way when every rank's manifest is there. What has no COMPLETE is no
// checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/store/manifest.h"

namespace parkade::store {

// Names within a checkpoint's directory, and that directory's in its base.
std::string StepDirectory(uint64_t step);
std::string ManifestFile(uint32_t rank);
std::string BucketFile(uint32_t rank, uint32_t bucket);
constexpr char kCompleteFile[] = "COMPLETE";

class CheckpointWriter {
 public:
  // Makes the step's directory (0700) in `base`, which exists. `manifest` says all but the buckets.
  // What an earlier attempt of this rank left is overwritten. ALREADY_EXISTS COMPLETE_ALREADY;
  // otherwise as OsError.
  static Result<CheckpointWriter> Begin(const std::string& base, Manifest manifest);

  // Writes a bucket's file: all its Bucket::saved_bytes, padding as zeros. Any order, each once.
  Result<void> WriteBucket(uint32_t bucket, const uint8_t* bytes, uint32_t ties,
                           uint64_t weight_sum);
  // The bucket's file was written to BucketPath by other means (a reflink, a tee); `saved` is what
  // it holds.
  Result<void> AddBucket(uint32_t bucket, SavedBucket saved);
  std::string BucketPath(uint32_t bucket) const;

  // Every bucket is there: brings all to the disk, then the manifest. FAILED_PRECONDITION
  // MISSING_BUCKET. Blocks until the disk has it.
  Result<void> Publish();

 private:
  Fd directory_;
  std::string path_;
  Manifest manifest_;
  std::vector<bool> there_;
};

// Writes COMPLETE if the manifests of all ranks are there, whole and of one set, and says whether
// it stands now. Each rank may call it after its Publish; who comes last completes. Any thread or
// process.
Result<bool> CompleteCheckpoint(const std::string& base, uint64_t step);

}  // namespace parkade::store
