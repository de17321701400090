// The manifest of one rank's part of a checkpoint: what its files hold, and the hash of every block
// of them. In memory, and both ways to bytes; files are checkpoint.h's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/hash/block_hash.h"
#include "common/result.h"
#include "common/store/layout.h"

namespace parkade::store {

constexpr Bytes kMostManifest = 1_GiB;
constexpr uint32_t kMostRanks = 1u << 20;

// A bucket's file, of Bucket::saved_bytes.
struct SavedBucket {
  uint64_t weight_sum = 0;  // as in BucketState
  uint32_t ties = 0;
  std::vector<Digest> digests = {};  // HashBlock of each block of 2 MiB
};

struct Manifest {
  uint64_t step = 0;
  uint64_t seed = 0;  // of the stochastic rounding
  uint32_t rank = 0;
  uint32_t ranks = 1;
  // Of this save: the same for all its ranks and no other save's, such as a random number that one
  // rank draws, so that what an earlier attempt at the same step left is never taken for a part.
  uint64_t set = 0;
  Layout layout = {};
  std::vector<SavedBucket> buckets = {};  // as the layout's
  std::string user = {};                  // whatever the caller wants back, such as hyperparameters
};

// INVALID_ARGUMENT TOO_LARGE above kMostManifest. `digest` becomes that of the manifest.
Result<std::string> PackManifest(const Manifest& manifest, Digest& digest);

// Checks every byte and number before it is used. `name` is for errors: DATA_LOSS TORN_MANIFEST
// (short, or another digest), BAD_MANIFEST (numbers that do not fit each other),
// FAILED_PRECONDITION NOT_A_MANIFEST, MANIFEST_VERSION.
Result<Manifest> ParseManifest(std::string_view bytes, const std::string& name, Digest& digest);

}  // namespace parkade::store
