// The fixed structs of a manifest as they stand in it; docs/store-format.md describes them byte by
// byte.
#pragma once

#include <cstdint>

namespace parkade::store {

constexpr uint64_t kManifestMagic = 0x31'4e414d'444b5250;  // "PRKDMAN1"
constexpr uint64_t kCompleteMagic = 0x31'504d43'444b5250;  // "PRKDCMP1"
constexpr uint32_t kManifestVersion = 1;

// Then, each from its offset on: segments, entries, shapes (uint64 each), buckets, digests (two
// uint64 each), names, user bytes. All little-endian; the offsets are in this order and without
// gaps, but for zeros up to the next multiple of 8.
struct ManifestHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;
  uint64_t total_bytes;
  uint64_t digest_low, digest_high;  // HashBytes of the whole with these two zero
  uint64_t step;
  uint64_t seed;
  uint32_t rank, ranks;
  uint64_t layout_low, layout_high;
  uint64_t bucket_numel;
  uint32_t segments, entries, shapes, buckets;
  uint64_t digests;
  uint64_t names_bytes, user_bytes;
  uint64_t set;
  uint8_t reserved[120];
};

struct ManifestSegment {
  uint32_t name_at, name_bytes;  // in the names
  uint32_t encoding;
  uint32_t raw_group_bytes;
};

struct ManifestEntry {
  uint32_t name_at, name_bytes;
  uint32_t shape_at, axes;  // in the shapes: `axes` of the global shape, then of the local one
  int32_t tp_axis;
  uint32_t group;
  uint64_t tp_offset, flat_begin, flat_end, user_tag;
  uint32_t replica;
  uint32_t reserved;
};

struct ManifestBucket {
  uint64_t weight_sum;
  uint32_t ties;
  uint32_t reserved;
};

// COMPLETE: this, and then the digest of each rank's manifest, two uint64 each.
struct CompleteHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t ranks;
  uint64_t step;
  uint64_t digest_low, digest_high;  // HashBytes of the whole with these two zero
};

static_assert(sizeof(ManifestHeader) == 256 && sizeof(ManifestSegment) == 16 &&
              sizeof(ManifestEntry) == 64 && sizeof(ManifestBucket) == 16 &&
              sizeof(CompleteHeader) == 40);

}  // namespace parkade::store
