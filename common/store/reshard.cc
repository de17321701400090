// Plans a load under another layout.
#include "common/store/reshard.h"

#include <algorithm>
#include <tuple>

#include "common/store/reshard_bucket.h"

namespace parkade::store {
namespace {

std::vector<const Layout*> LayoutsOf(const Checkpoint& checkpoint) {
  std::vector<const Layout*> layouts;
  for (const Manifest& manifest : checkpoint.manifests()) layouts.push_back(&manifest.layout);
  return layouts;
}

Error Mismatch(const char* reason, const std::string& segment, uint32_t rank, const char* what) {
  return MakeError(Code::kFailedPrecondition, reason, "segment %.64s: rank %u %s", segment.c_str(),
                   rank, what);
}

}  // namespace

Result<Resharding> Resharding::Plan(const Checkpoint& checkpoint, const Layout& wanted,
                                    Conversion conversion) {
  Resharding plan(checkpoint, wanted, SourceIndex(LayoutsOf(checkpoint)));
  for (uint32_t rank = 0; rank < checkpoint.manifests().size(); ++rank) {
    const Layout& source = checkpoint.manifests()[rank].layout;
    if (auto r = plan.MatchSegments(source, rank, conversion); !r.ok()) return r.error();
    auto& holders = plan.holders_.emplace_back(source.entries().size());
    for (uint32_t bucket = 0; bucket < source.buckets().size(); ++bucket) {
      for (const Piece& piece : source.buckets()[bucket].pieces) {
        holders[piece.entry].push_back({bucket, &piece});
      }
    }
  }
  for (const Entry& entry : wanted.entries()) {
    // Also for an entry of no elements: its parameter must be known.
    if (auto runs = plan.index_.RunsFor(entry, entry.flat_begin, entry.flat_end); !runs.ok()) {
      return runs.error();
    }
  }
  return plan;
}

Result<void> Resharding::MatchSegments(const Layout& source, uint32_t rank,
                                       Conversion conversion) const {
  const auto same_name = [](const Segment& a) {
    return [&a](const Segment& b) { return a.name == b.name; };
  };
  for (const Segment& segment : wanted_->segments()) {
    const auto found =
        std::find_if(source.segments().begin(), source.segments().end(), same_name(segment));
    if (found == source.segments().end()) {
      return Mismatch("MISSING_SEGMENT", segment.name, rank, "did not save it");
    }
    const bool raw = found->encoding == Encoding::kRaw || segment.encoding == Encoding::kRaw;
    const bool same =
        found->encoding == segment.encoding && found->raw_group_bytes == segment.raw_group_bytes;
    if (!same && (raw || conversion == Conversion::kRefuse)) {
      return Mismatch("OTHER_ENCODING", segment.name, rank,
                      raw ? "saved it in other raw bytes, which nobody can convert"
                          : "saved it in another encoding; ask for a conversion to load it");
    }
  }
  const std::vector<Segment>& others = checkpoint_->manifests()[0].layout.segments();
  if (!std::equal(others.begin(), others.end(), source.segments().begin(), source.segments().end(),
                  [](const Segment& a, const Segment& b) {
                    return a.name == b.name && a.encoding == b.encoding &&
                           a.raw_group_bytes == b.raw_group_bytes;
                  })) {
    return Mismatch("OTHER_ENCODING", source.segments()[0].name, rank,
                    "saved other segments or encodings than rank 0");
  }
  if (conversion == Conversion::kAllow) return {};
  for (const Segment& segment : source.segments()) {
    if (std::none_of(wanted_->segments().begin(), wanted_->segments().end(), same_name(segment))) {
      return Mismatch("EXTRA_SEGMENT", segment.name, rank,
                      "saved it, and it is not wanted; ask for a conversion to drop it");
    }
  }
  return {};
}

Result<std::vector<Resharding::Copy>> Resharding::CopiesFor(const Bucket& bucket) const {
  std::vector<Copy> copies;
  for (const Piece& piece : bucket.pieces) {
    const Entry& entry = wanted_->entries()[piece.entry];
    auto runs = index_.RunsFor(entry, piece.param_begin, piece.param_end);
    if (!runs.ok()) return runs.error();
    for (const Run& run : *runs) {
      for (const Holder& holder : holders_[run.rank][run.entry]) {
        const Piece& held = *holder.piece;
        const uint64_t from = std::max(run.source, held.param_begin);
        const uint64_t to = std::min(run.source + run.numel, held.param_end);
        if (from >= to) continue;
        const uint64_t wanted = run.wanted + (from - run.source);
        copies.push_back({run.rank, holder.bucket, held.position + (from - held.param_begin),
                          piece.position + (wanted - piece.param_begin), to - from});
      }
    }
  }
  // Each source bucket is read once.
  std::sort(copies.begin(), copies.end(), [](const Copy& a, const Copy& b) {
    return std::tie(a.rank, a.bucket, a.wanted) < std::tie(b.rank, b.bucket, b.wanted);
  });
  return copies;
}

Result<void> Resharding::MakeBucket(uint32_t index, std::vector<uint8_t>& bytes,
                                    BucketState& state) {
  const Bucket& bucket = wanted_->buckets()[index];
  auto copies = CopiesFor(bucket);
  if (!copies.ok()) return copies.error();
  BucketBuilder builder(*wanted_, index, bytes);
  for (const Copy& copy : *copies) {
    const uint64_t source = uint64_t{copy.rank} << 32 | copy.bucket;
    builder.Announce(source, {copy.source, copy.wanted, copy.numel});
  }
  std::vector<uint8_t> source_bytes;
  for (size_t i = 0; i < copies->size();) {
    const Copy& first = (*copies)[i];
    const Manifest& manifest = checkpoint_->manifests()[first.rank];
    if (auto r = checkpoint_->ReadBucket(first.rank, first.bucket, source_bytes); !r.ok()) {
      return r;
    }
    const SavedBucket& saved = manifest.buckets[first.bucket];
    if (auto r = builder.From(manifest.layout, first.bucket, source_bytes, saved.ties); !r.ok()) {
      return r;
    }
    const uint32_t rank = first.rank, holder = first.bucket;
    for (; i < copies->size() && (*copies)[i].rank == rank && (*copies)[i].bucket == holder; ++i) {
      const Copy& copy = (*copies)[i];
      if (auto r = builder.Add({copy.source, copy.wanted, copy.numel}); !r.ok()) return r;
    }
  }
  if (auto r = builder.Finish(state); !r.ok()) return r;
  reencoded_ += builder.reencoded();
  return {};
}

}  // namespace parkade::store
