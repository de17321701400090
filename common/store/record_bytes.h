// The records of a state file as they stand in it; docs/store-format.md describes them byte by
// byte.
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/store/crc32c.h"

namespace parkade::store {

constexpr uint64_t kStateMagic = 0x3154534544'4b52'50;  // "PRKDEST1"
constexpr uint32_t kStateVersion = 1;
constexpr uint32_t kStepMagic = 0x50455453;    // "STEP"
constexpr uint32_t kBucketMagic = 0x544b4342;  // "BCKT"

constexpr uint64_t kStateHeaderBytes = 4096;
constexpr uint64_t kStepRecordsAt = 512;  // the pair: 512 and 1024
constexpr uint64_t kRecordBytes = 64;

// At offset 0; never changes.
struct StateHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t buckets;
  uint32_t redundancy;
  uint32_t files;
  uint64_t layout_low, layout_high;
  uint64_t boot;
  uint8_t reserved[12];
  uint32_t crc;  // CRC-32C of what stands before it; so in all records
};

struct StepRecord {
  uint32_t magic;
  uint32_t reserved0;
  uint64_t sequence;  // the greater of the pair counts
  uint64_t committed;
  uint64_t under_way;
  uint64_t boot;
  uint8_t reserved[20];
  uint32_t crc;
};

enum Phase : uint32_t {
  kPhaseEmpty = 1,    // never filled
  kPhaseClean = 2,    // whole, at `step`
  kPhaseWriting = 3,  // being written for `step`
};
constexpr uint32_t kFlagMainOnly = 1;

struct BucketRecord {
  uint32_t magic;
  uint32_t bucket;
  uint64_t sequence;
  uint64_t layout_low;
  uint64_t boot;
  uint64_t step;
  uint64_t weight_sum;
  uint32_t file;
  uint32_t ties;
  uint16_t phase;
  uint16_t flags;
  uint32_t crc;
};

static_assert(sizeof(StateHeader) == kRecordBytes && sizeof(StepRecord) == kRecordBytes &&
              sizeof(BucketRecord) == kRecordBytes);
static_assert(std::is_trivially_copyable_v<BucketRecord>);

template <typename Record>
void Seal(Record& record) {
  record.crc = Crc32c(&record, sizeof record - sizeof record.crc);
}

template <typename Record>
bool IsSealed(const Record& record) {
  return record.crc == Crc32c(&record, sizeof record - sizeof record.crc);
}

}  // namespace parkade::store
