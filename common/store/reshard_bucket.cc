// Copies, or decodes and encodes again, the elements of one wanted bucket.
#include "common/store/reshard_bucket.h"

#include <algorithm>
#include <cstring>

#include "common/store/ties.h"
#include "common/store/weights_area.h"

namespace parkade::store {
namespace {

// Bytes of one element of an encoding without groups.
Bytes UnitBytes(const Segment& segment) { return EncodedBytes(segment, kGroup) / kGroup; }

void SetBit(std::vector<uint32_t>& bits, uint64_t at, bool set) {
  const uint32_t bit = 1u << at % 32;
  bits[at / 32] = set ? bits[at / 32] | bit : bits[at / 32] & ~bit;
}

// How many elements a group of a bucket has; the rest is padding.
uint64_t ElementsIn(const Bucket& bucket, uint64_t group) {
  const uint64_t begin = group * kGroup, end = begin + kGroup;
  const auto piece =
      std::partition_point(bucket.pieces.begin(), bucket.pieces.end(),
                           [begin](const Piece& p) { return p.position + p.numel() <= begin; });
  if (piece == bucket.pieces.end() || piece->position >= end) return 0;
  return std::min(end, piece->positions().end) - std::max(begin, piece->position);
}

}  // namespace

BucketBuilder::BucketBuilder(const Layout& wanted, uint32_t bucket, std::vector<uint8_t>& bytes)
    : wanted_(wanted),
      bucket_(wanted.buckets()[bucket]),
      bytes_(bytes),
      group_source_(bucket_.numel / kGroup, kNone),
      group_bucket_(bucket_.numel / kGroup),
      makings_(wanted.segments().size()) {
  bytes_.assign(bucket_.saved_bytes, 0);
  if (wanted.lo16() >= 0) {
    weights_.assign(bucket_.numel, 0);
    ties_.assign(bucket_.numel / kGroup, 0);
  }
}

void BucketBuilder::Announce(uint64_t source, const Part& part) {
  for (uint64_t i = 0; i < part.numel;) {
    const uint64_t group = (part.wanted + i) / kGroup;
    const uint64_t from = (part.source + i) / kGroup;
    const uint64_t left = std::min(
        {kGroup - (part.wanted + i) % kGroup, kGroup - (part.source + i) % kGroup, part.numel - i});
    if (group_source_[group] == kNone) {
      group_source_[group] = from;
      group_bucket_[group] = source;
    } else if (group_source_[group] != from || group_bucket_[group] != source) {
      group_source_[group] = kMixed;
    }
    i += left;
  }
}

Result<void> BucketBuilder::From(const Layout& source, uint32_t bucket,
                                 std::span<const uint8_t> bytes, uint32_t ties) {
  source_ = &source;
  source_bucket_ = &source.buckets()[bucket];
  source_bytes_ = bytes;
  for (size_t i = 0; i < makings_.size(); ++i) {
    const Segment& wanted = wanted_.segments()[i];
    for (size_t j = 0; j < source.segments().size(); ++j) {
      const Segment& held = source.segments()[j];
      if (held.name != wanted.name) continue;
      makings_[i].source = &held;
      makings_[i].area = &source_bucket_->segments[j];
      makings_[i].same = held.encoding == wanted.encoding;
    }
  }
  if (source.lo16() < 0) return {};
  source_weights_.resize(source_bucket_->numel);
  memcpy(source_weights_.data(), bytes.data() + source_bucket_->weights.offset,
         source_bucket_->weights.bytes);
  source_ties_.resize(source_bucket_->numel / kGroup);
  return UnpackTies(bytes.subspan(source_bucket_->ties.offset, source_bucket_->ties.bytes), ties,
                    source_ties_);
}

Result<void> BucketBuilder::Add(const Part& part) {
  for (size_t segment = 0; segment < makings_.size(); ++segment) {
    Making& making = makings_[segment];
    if (!making.same) {
      DecodeInto(making, part);
    } else if (HasGroups(*making.source)) {
      if (auto r = CopyGroups(making, segment, part); !r.ok()) return r;
    } else {
      CopyUnits(making, segment, part);
    }
  }
  return {};
}

void BucketBuilder::CopyUnits(const Making& making, size_t segment, const Part& part) {
  const Bytes unit = UnitBytes(*making.source);
  memcpy(BytesOf(segment) + part.wanted * unit,
         source_bytes_.data() + making.area->offset + part.source * unit, part.numel * unit);
  if (making.source->encoding != Encoding::kLo16) return;
  for (uint64_t i = 0; i < part.numel; ++i) {
    const uint64_t from = part.source + i, to = part.wanted + i;
    weights_[to] = source_weights_[from];
    SetBit(ties_, to, source_ties_[from / kGroup] >> from % kGroup & 1u);
  }
}

Result<void> BucketBuilder::CopyGroups(Making& making, size_t segment, const Part& part) {
  const Segment& kind = *making.source;
  const uint8_t* from = source_bytes_.data() + making.area->offset;
  uint8_t* to = BytesOf(segment);
  const bool raw = kind.encoding == Encoding::kRaw;
  const Bytes scale = raw ? 0 : EncodedBytes(kind, kGroup) - kGroup;
  for (uint64_t i = 0; i < part.numel;) {
    const uint64_t source = part.source + i, wanted = part.wanted + i, group = wanted / kGroup;
    const uint64_t left =
        std::min({kGroup - wanted % kGroup, kGroup - source % kGroup, part.numel - i});
    i += left;
    if (raw) {
      // Both hold these elements of the group and no others.
      const bool uncut = source % kGroup == wanted % kGroup && left == ElementsIn(bucket_, group) &&
                         left == ElementsIn(*source_bucket_, source / kGroup);
      if (!uncut) {
        return MakeError(Code::kFailedPrecondition, "RAW_GROUP_CUT",
                         "segment %.64s: the load would cut a group of 32 whose bytes only their "
                         "owner knows",
                         kind.name.c_str());
      }
      memcpy(to + group * kind.raw_group_bytes, from + source / kGroup * kind.raw_group_bytes,
             kind.raw_group_bytes);
    } else if (IsWhole(group)) {
      memcpy(to + wanted, from + source, left);
      memcpy(to + ScalesAt(kind, bucket_.numel) + group * scale,
             from + ScalesAt(kind, source_bucket_->numel) + source / kGroup * scale, scale);
    } else {
      DecodeInto(making, {source, wanted, left});
    }
  }
  return {};
}

void BucketBuilder::DecodeInto(Making& making, const Part& part) {
  if (making.values.empty()) making.values.assign(bucket_.numel, 0.0f);
  scratch_.resize(source_bucket_->numel);
  Decode(*making.source, source_bytes_.data() + making.area->offset, source_bucket_->numel,
         {part.source, part.source + part.numel}, {source_weights_, source_ties_}, scratch_.data());
  memcpy(&making.values[part.wanted], &scratch_[part.source], part.numel * sizeof(float));
}

Result<void> BucketBuilder::EncodeGroups(size_t segment) {
  Making& making = makings_[segment];
  if (making.values.empty()) return {};
  const Rounding nearest = {.nearest = true};
  for (const Piece& piece : bucket_.pieces) {
    const Range all = piece.positions();
    for (uint64_t at = all.begin; at < all.end;) {
      const uint64_t end = std::min(all.end, (at / kGroup + 1) * kGroup);
      if (!making.same || !IsWhole(at / kGroup)) {
        if (auto r = Encode(wanted_.segments()[segment], making.values.data(), bucket_.numel,
                            {at, end}, nearest, {weights_, ties_}, BytesOf(segment));
            !r.ok()) {
          return r;
        }
        reencoded_ += end - at;
      }
      at = end;
    }
  }
  return {};
}

Result<void> BucketBuilder::Finish(BucketState& state) {
  for (size_t segment = 0; segment < makings_.size(); ++segment) {
    if (auto r = EncodeGroups(segment); !r.ok()) return r;
  }
  FillWeightsArea(wanted_, bucket_, {weights_, ties_}, bytes_, state);
  return {};
}

}  // namespace parkade::store
