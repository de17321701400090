// Writes the state file of a live store: the order of a step.
#include "common/store/records.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "common/store/bytes_hash.h"
#include "common/store/file_bytes.h"
#include "common/store/layout.h"
#include "common/store/record_bytes.h"

namespace parkade::store {
namespace {

using ull = unsigned long long;

constexpr char kName[] = "state file";

[[gnu::format(printf, 1, 2)]] Error OutOfOrder(const char* format, ...) {
  char what[160];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return MakeError(Code::kFailedPrecondition, "STEP_ORDER", "%s", what);
}

BucketRecord RecordOf(const StateFile::Shape& shape, uint32_t bucket, uint64_t sequence,
                      uint32_t phase, const BucketState& state) {
  BucketRecord record = {};
  record.magic = kBucketMagic;
  record.bucket = bucket;
  record.sequence = sequence;
  record.layout_low = shape.layout.low;
  record.boot = shape.boot;
  record.step = state.step;
  record.weight_sum = state.weight_sum;
  record.file = state.file;
  record.ties = state.ties;
  record.phase = uint16_t(phase);
  record.flags = uint16_t(state.main_only ? kFlagMainOnly : 0);
  Seal(record);
  return record;
}

}  // namespace

bool StateFile::Shape::IsRight() const {
  if (buckets > kMostBuckets) return false;
  switch (redundancy) {
    case Redundancy::kInplace:
      return files == buckets;
    case Redundancy::kRotate:
      return files > buckets && files <= 2 * kMostBuckets;
    case Redundancy::kShadow:
      return files == 2 * buckets;
  }
  return false;
}

Result<StateFile> StateFile::Create(Fd fd, const Shape& shape) {
  if (!shape.IsRight()) {
    return MakeError(Code::kInvalidArgument, "BAD_SHAPE", "%u buckets in %u files, redundancy %u",
                     shape.buckets, shape.files, uint32_t(shape.redundancy));
  }
  StateFile file;
  file.fd_ = std::move(fd);
  file.shape_ = shape;
  file.places_.resize(shape.buckets);
  std::string records;
  for (uint32_t bucket = 0; bucket < shape.buckets; ++bucket) {
    Place& place = file.places_[bucket];
    place.state.file = bucket;
    place.sequence = 1;
    place.slot = 1;
    for (const uint64_t sequence : {0, 1}) {
      const BucketRecord record = RecordOf(shape, bucket, sequence, kPhaseEmpty, place.state);
      records.append(reinterpret_cast<const char*>(&record), sizeof record);
    }
  }
  // The header last: a file without one is no store.
  if (auto r = WriteAt(file.fd_.get(), records.data(), records.size(), kStateHeaderBytes, kName);
      !r.ok()) {
    return r.error();
  }
  for (int i = 0; i < 2; ++i) {
    if (auto r = file.WriteStep(kNoStep, kNoStep); !r.ok()) return r.error();
  }
  char page[kStepRecordsAt] = {};
  StateHeader header = {};
  header.magic = kStateMagic;
  header.version = kStateVersion;
  header.buckets = shape.buckets;
  header.redundancy = uint32_t(shape.redundancy);
  header.files = shape.files;
  header.layout_low = shape.layout.low;
  header.layout_high = shape.layout.high;
  header.boot = shape.boot;
  Seal(header);
  memcpy(page, &header, sizeof header);
  if (auto r = WriteAt(file.fd_.get(), page, sizeof page, 0, kName); !r.ok()) return r.error();
  file.FindSpares();
  return file;
}

Result<void> StateFile::WriteStep(uint64_t committed, uint64_t under_way) {
  StepRecord record = {};
  record.magic = kStepMagic;
  record.sequence = step_sequence_ + 1;
  record.committed = committed;
  record.under_way = under_way;
  record.boot = shape_.boot;
  Seal(record);
  const uint64_t at = kStepRecordsAt * (1 + record.sequence % 2);
  if (auto r = WriteAt(fd_.get(), &record, sizeof record, at, kName); !r.ok()) return r.error();
  ++step_sequence_;
  committed_ = committed;
  under_way_ = under_way;
  return {};
}

// Into the record that does not hold the bucket's state.
Result<void> StateFile::WriteBucket(uint32_t bucket, uint32_t phase, const BucketState& state) {
  Place& place = places_[bucket];
  const uint32_t slot = 1 - place.slot;
  const BucketRecord record = RecordOf(shape_, bucket, place.sequence + 1, phase, state);
  const uint64_t at = kStateHeaderBytes + (uint64_t{bucket} * 2 + slot) * kRecordBytes;
  if (auto r = WriteAt(fd_.get(), &record, sizeof record, at, kName); !r.ok()) return r.error();
  ++place.sequence;
  place.slot = slot;
  place.state = state;
  return {};
}

Result<void> StateFile::BeginStep(uint64_t step) {
  if (standing_ != Standing::kClean) {
    return MakeError(Code::kFailedPrecondition, "NOT_CLEAN",
                     "step %llu: the store is not clean; load a checkpoint", ull(step));
  }
  if (under_way_ != kNoStep) {
    return OutOfOrder("step %llu begins while step %llu is under way", ull(step), ull(under_way_));
  }
  if (step == kNoStep || (committed_ != kNoStep && step != committed_ + 1)) {
    return OutOfOrder("step %llu begins after step %llu", ull(step), ull(committed_));
  }
  for (Place& place : places_) {
    place.progress = Progress::kNone;
    place.before = place.state;
    place.before_slot = place.slot;
  }
  return WriteStep(committed_, step);
}

Result<uint32_t> StateFile::BeginBucket(uint32_t bucket) {
  if (under_way_ == kNoStep || bucket >= shape_.buckets ||
      places_[bucket].progress != Progress::kNone) {
    return OutOfOrder("bucket %u begins outside a step or twice", bucket);
  }
  Place& place = places_[bucket];
  place.target = place.state.file;
  const bool filled = place.state.step != kNoStep;
  if (shape_.redundancy == Redundancy::kInplace) {
    BucketState torn = place.state;
    torn.step = under_way_;
    if (auto r = WriteBucket(bucket, kPhaseWriting, torn); !r.ok()) return r.error();
  } else if (shape_.redundancy == Redundancy::kRotate && filled) {
    if (spares_.empty()) {
      return MakeError(Code::kFailedPrecondition, "NO_SPARE_FILE",
                       "bucket %u begins, and all %u spare files are being written", bucket,
                       shape_.files - shape_.buckets);
    }
    place.target = spares_.front();
    spares_.erase(spares_.begin());
  } else if (shape_.redundancy == Redundancy::kShadow && filled) {
    place.target = place.state.file < shape_.buckets ? place.state.file + shape_.buckets
                                                     : place.state.file - shape_.buckets;
  }
  place.progress = Progress::kBegun;
  return place.target;
}

Result<void> StateFile::EndBucket(uint32_t bucket, const BucketState& state) {
  if (under_way_ == kNoStep || bucket >= shape_.buckets ||
      places_[bucket].progress != Progress::kBegun) {
    return OutOfOrder("bucket %u ends without having begun", bucket);
  }
  Place& place = places_[bucket];
  const uint32_t old_file = place.state.file;
  BucketState clean = state;
  clean.step = under_way_;
  clean.file = place.target;
  if (auto r = WriteBucket(bucket, kPhaseClean, clean); !r.ok()) return r.error();
  place.progress = Progress::kEnded;
  // Only now may another bucket overwrite the old bytes.
  if (shape_.redundancy == Redundancy::kRotate && old_file != place.target) {
    spares_.push_back(old_file);
  }
  return {};
}

Result<void> StateFile::CommitStep() {
  if (under_way_ == kNoStep) return OutOfOrder("a commit without a step");
  for (uint32_t bucket = 0; bucket < shape_.buckets; ++bucket) {
    if (places_[bucket].progress != Progress::kEnded) {
      return OutOfOrder("step %llu is committed before bucket %u has ended", ull(under_way_),
                        bucket);
    }
  }
  return WriteStep(under_way_, kNoStep);
}

Result<void> StateFile::AbortStep() {
  if (under_way_ == kNoStep) return OutOfOrder("an abort without a step");
  const bool can_go_back = shape_.redundancy == Redundancy::kShadow && committed_ != kNoStep;
  for (uint32_t bucket = 0; bucket < shape_.buckets && !can_go_back; ++bucket) {
    if (places_[bucket].progress == Progress::kNone) continue;
    return MakeError(Code::kFailedPrecondition, "STEP_UNDER_WAY",
                     "step %llu cannot be given up: bucket %u has begun", ull(under_way_), bucket);
  }
  if (auto r = WriteStep(committed_, kNoStep); !r.ok()) return r.error();
  // The other record of an ended bucket still tells the step that was given up; it is of no step
  // that Open looks for, and is overwritten next.
  for (Place& place : places_) {
    place.state = place.before;
    place.slot = place.before_slot;
    place.progress = Progress::kNone;
  }
  return {};
}

Result<uint64_t> ThisBoot() {
  const Fd fd(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  char text[64] = {};
  const ssize_t n = fd ? read(fd.get(), text, sizeof text) : -1;
  if (n <= 0) return OsError(errno, "read of /proc/sys/kernel/random/boot_id");
  return HashBytes({text, size_t(n)}).low;
}

}  // namespace parkade::store
