// Reads checkpoints: nothing is used that is not complete, of one set and as it was written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/store/checkpoint_writer.h"
#include "common/store/manifest.h"

namespace parkade::store {

// Reads and checks one rank's manifest in the step's directory `directory`, whose path is for
// errors. As ParseManifest, and DATA_LOSS OTHER_RANK for that of another rank.
Result<Manifest> ReadManifest(int directory, const std::string& path, uint32_t rank,
                              Digest& digest);

class Checkpoint {
 public:
  // Opens a step of `base`. Checks COMPLETE, every manifest against it, and that every file is
  // there in its length; bytes are checked as they are read. FAILED_PRECONDITION INCOMPLETE,
  // NOT_FOUND, DATA_LOSS with the file and what is wrong (TORN_COMPLETE, OTHER_MANIFEST,
  // OTHER_RANK, WRONG_LENGTH, as ParseManifest).
  static Result<Checkpoint> Open(const std::string& base, uint64_t step);

  uint64_t step() const { return manifests_[0].step; }
  const std::vector<Manifest>& manifests() const { return manifests_; }  // by rank, at least one
  const std::string& path() const { return path_; }

  // Reads a bucket's whole file and checks every block. DATA_LOSS DAMAGED_BLOCK names the file, the
  // block, and a parameter in it. Any thread.
  Result<void> ReadBucket(uint32_t rank, uint32_t bucket, std::vector<uint8_t>& bytes) const;
  // Reads all; the first error.
  Result<void> Verify() const;

 private:
  Fd directory_;
  std::string path_;
  std::vector<Manifest> manifests_;
};

struct Generation {
  uint64_t step = 0;
  bool complete = false;  // COMPLETE is there
};

// The steps in `base`, ascending. As OsError.
Result<std::vector<Generation>> ListGenerations(const std::string& base);
// Removes one generation, as PruneGenerations does: for one that is to be saved anew.
Result<void> RemoveGeneration(const std::string& base, uint64_t step);
// Removes all complete generations but the newest `keep` (at least 1), and incomplete ones older
// than the newest complete one. COMPLETE goes first, so that a half removed one is none. Returns
// how many. As OsError.
Result<uint32_t> PruneGenerations(const std::string& base, uint32_t keep);

}  // namespace parkade::store
