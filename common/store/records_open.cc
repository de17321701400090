// Opens the state file of a live store and judges how the store stands.
#include <algorithm>
#include <cstring>
#include <string>

#include "common/store/file_bytes.h"
#include "common/store/record_bytes.h"
#include "common/store/records.h"

namespace parkade::store {
namespace {

constexpr char kName[] = "state file";

BucketState StateOf(const BucketRecord& record) {
  return {record.step, record.file, (record.flags & kFlagMainOnly) != 0, record.ties,
          record.weight_sum};
}

std::string StepText(uint64_t step) {
  return step == kNoStep ? "none" : "step " + std::to_string(step);
}

// "buckets 1, 2, 5 and 12 more"
std::string ListText(const std::vector<uint32_t>& buckets) {
  constexpr size_t kShown = 8;
  std::string text = buckets.size() == 1 ? "bucket " : "buckets ";
  for (size_t i = 0; i < buckets.size() && i < kShown; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(buckets[i]);
  }
  if (buckets.size() > kShown) text += " and " + std::to_string(buckets.size() - kShown) + " more";
  return text;
}

}  // namespace

Result<StateFile> StateFile::Open(Fd fd, const Digest& layout, uint64_t boot, StateReport& report) {
  report = {};
  StateFile file;
  file.fd_ = std::move(fd);
  if (auto r = file.ReadHeader(layout); !r.ok()) return r.error();
  if (auto r = file.ReadBuckets(report); !r.ok()) return r.error();
  if (file.shape_.boot != boot) {
    report = {};
    report.text =
        "the store was written before this machine's last start, by which any of its bytes may be "
        "lost; load a checkpoint";
  }
  file.standing_ = report.standing;
  return file;
}

Result<void> StateFile::ReadHeader(const Digest& layout) {
  StateHeader header;
  if (auto r = ReadAt(fd_.get(), &header, sizeof header, 0, kName); !r.ok()) return r.error();
  if (header.magic != kStateMagic) {
    return MakeError(Code::kFailedPrecondition, "NOT_A_STORE",
                     "state file: does not begin as one; creating it was perhaps cut short");
  }
  if (!IsSealed(header)) {
    return MakeError(Code::kDataLoss, "DAMAGED_HEADER",
                     "state file: the header's checksum is wrong");
  }
  if (header.version != kStateVersion) {
    return MakeError(Code::kFailedPrecondition, "STORE_VERSION",
                     "state file: version %u, this library reads %u", header.version,
                     kStateVersion);
  }
  shape_ = {{header.layout_low, header.layout_high},
            header.buckets,
            Redundancy(header.redundancy),
            header.files,
            header.boot};
  if (!shape_.IsRight()) {
    return MakeError(Code::kDataLoss, "DAMAGED_HEADER", "state file: %u buckets in %u files",
                     shape_.buckets, shape_.files);
  }
  if (shape_.layout != layout) {
    return MakeError(Code::kFailedPrecondition, "OTHER_LAYOUT",
                     "state file: of a store with other parameters, segments or bucket size");
  }
  bool found = false;
  for (const uint64_t at : {kStepRecordsAt, 2 * kStepRecordsAt}) {
    StepRecord record;
    if (auto r = ReadAt(fd_.get(), &record, sizeof record, at, kName); !r.ok()) return r.error();
    const bool whole = record.magic == kStepMagic && IsSealed(record) && record.boot == shape_.boot;
    if (!whole || (found && record.sequence < step_sequence_)) continue;
    found = true;
    step_sequence_ = record.sequence;
    committed_ = record.committed;
    under_way_ = record.under_way;
  }
  if (found) return {};
  return MakeError(Code::kDataLoss, "DAMAGED_HEADER",
                   "state file: both records of the step are damaged");
}

Result<void> StateFile::ReadBuckets(StateReport& report) {
  std::vector<BucketRecord> records(size_t{shape_.buckets} * 2);
  if (auto r = ReadAt(fd_.get(), records.data(), records.size() * kRecordBytes, kStateHeaderBytes,
                      kName);
      !r.ok()) {
    return r.error();
  }
  places_.resize(shape_.buckets);
  std::vector<uint32_t> torn;
  for (uint32_t bucket = 0; bucket < shape_.buckets; ++bucket) {
    Place& place = places_[bucket];
    bool chosen = false, damaged = false, writing = false;
    for (uint32_t slot = 0; slot < 2; ++slot) {
      const BucketRecord& record = records[size_t{bucket} * 2 + slot];
      if (record.magic != kBucketMagic || !IsSealed(record) || record.bucket != bucket ||
          record.layout_low != shape_.layout.low || record.boot != shape_.boot ||
          record.file >= shape_.files || record.phase < kPhaseEmpty ||
          record.phase > kPhaseWriting) {
        damaged = true;
        continue;
      }
      const bool newer = record.sequence > place.sequence || !chosen;
      place.sequence = std::max(place.sequence, record.sequence);
      // A shadow store stands at the committed step, whatever came of the one after it.
      const bool shadow = shape_.redundancy == Redundancy::kShadow && committed_ != kNoStep;
      if (shadow ? record.step != committed_ : !newer) continue;
      chosen = true;
      place.slot = slot;
      place.state = StateOf(record);
      writing = record.phase == kPhaseWriting;
    }
    // Overwritten in place, the damaged record may have been the one that says so.
    const bool hidden = damaged && shape_.redundancy == Redundancy::kInplace;
    if (!chosen || hidden || writing) torn.push_back(bucket);
  }
  Judge(report, torn);
  FindSpares();
  return {};
}

void StateFile::Judge(StateReport& report, const std::vector<uint32_t>& torn_records) {
  const uint64_t committed = committed_, under_way = under_way_;
  under_way_ = kNoStep;
  report.step = committed;
  std::vector<uint32_t> torn = torn_records, ahead, behind;
  std::vector<uint32_t> owners(shape_.files, UINT32_MAX);
  for (uint32_t bucket = 0; bucket < shape_.buckets; ++bucket) {
    const BucketState& state = places_[bucket].state;
    if (std::binary_search(torn_records.begin(), torn_records.end(), bucket)) continue;
    uint32_t& owner = owners[state.file];
    const bool shared = owner != UINT32_MAX;
    owner = bucket;
    if (!shared && state.step == committed) {
      behind.push_back(bucket);
    } else if (!shared && under_way != kNoStep && state.step == under_way) {
      ahead.push_back(bucket);
    } else {
      torn.push_back(bucket);
    }
  }
  if (!torn.empty()) {
    std::sort(torn.begin(), torn.end());
    report.standing = Standing::kTorn;
    report.text = ListText(torn) + (torn.size() == 1 ? " is" : " are") +
                  " half written or unreadable (committed: " + StepText(committed) +
                  ", under way: " + StepText(under_way) + "); load a checkpoint";
    report.buckets = std::move(torn);
    return;
  }
  if (behind.empty() && !ahead.empty()) {
    // All of the step was written, and only its commit is missing.
    committed_ = under_way;
  } else if (!ahead.empty() || committed == kNoStep) {
    report.standing = Standing::kInterrupted;
    report.buckets = committed == kNoStep ? std::move(behind) : std::move(ahead);
    report.text = committed == kNoStep
                      ? ListText(report.buckets) + " of a new store never filled; load a checkpoint"
                      : ListText(report.buckets) + " at " + StepText(under_way) +
                            ", the others at " + StepText(committed) + "; load a checkpoint";
    return;
  }
  report.standing = Standing::kClean;
  report.step = committed_;
  report.rolled_back =
      shape_.redundancy == Redundancy::kShadow && under_way != kNoStep && committed_ == committed;
}

void StateFile::FindSpares() {
  spares_.clear();
  if (shape_.redundancy != Redundancy::kRotate) return;
  std::vector<bool> used(shape_.files);
  for (const Place& place : places_) used[place.state.file] = true;
  for (uint32_t file = 0; file < shape_.files; ++file) {
    if (!used[file]) spares_.push_back(file);
  }
}

}  // namespace parkade::store
