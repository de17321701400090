// Checks entries and segments, and cuts the entries into buckets.
#include "common/store/layout.h"

#include <algorithm>
#include <numeric>

#include "common/store/bytes_hash.h"
#include "common/store/ties.h"

namespace parkade::store {
namespace {

using ull = unsigned long long;

[[gnu::format(printf, 3, 4)]] Error Refuse(const char* reason, std::string_view name,
                                           const char* format, ...) {
  char detail[160];
  va_list args;
  va_start(args, format);
  vsnprintf(detail, sizeof detail, format, args);
  va_end(args);
  return MakeError(Code::kInvalidArgument, reason, "%.*s: %s",
                   int(std::min<size_t>(name.size(), 80)), name.data(), detail);
}

Result<void> CheckEntry(const Entry& entry) {
  const std::string& name = entry.name;
  if (name.empty() || name.size() > kMostName) {
    return MakeError(Code::kInvalidArgument, "NO_NAME",
                     "an entry's name has %zu bytes; 1 to %zu are right", name.size(), kMostName);
  }
  if (name.find('\0') != name.npos)
    return Refuse("NO_NAME", name.c_str(), "a name with a zero byte");
  const size_t axes = entry.global_shape.size();
  if (axes > kMostAxes) return Refuse("BAD_SHAPE", name, "%zu axes, %u at most", axes, kMostAxes);
  if (entry.local_shape.size() != axes) {
    return Refuse("BAD_SHAPE", name, "%zu axes here, %zu globally", entry.local_shape.size(), axes);
  }
  if (entry.tp_axis < -1 || entry.tp_axis >= int32_t(axes)) {
    return Refuse("BAD_SHAPE", name, "cut along axis %d of %zu", entry.tp_axis, axes);
  }
  if (entry.tp_axis == -1 && entry.tp_offset != 0) {
    return Refuse("BAD_SHAPE", name, "an offset of %llu without an axis", ull(entry.tp_offset));
  }
  for (size_t axis = 0; axis < axes; ++axis) {
    const uint64_t global = entry.global_shape[axis], local = entry.local_shape[axis];
    if (int32_t(axis) != entry.tp_axis && local != global) {
      return Refuse("BAD_SHAPE", name, "%llu of %llu along axis %zu, which is not cut", ull(local),
                    ull(global), axis);
    }
    if (int32_t(axis) == entry.tp_axis && (local > global || entry.tp_offset > global - local)) {
      return Refuse("BAD_SHAPE", name, "%llu from %llu on, of %llu along axis %zu", ull(local),
                    ull(entry.tp_offset), ull(global), axis);
    }
  }
  if (auto global = NumelOf(entry.global_shape); !global.ok()) {
    return Refuse("TOO_LARGE", name, "its shape has more than 2^48 elements");
  }
  const uint64_t local = *NumelOf(entry.local_shape);
  if (entry.flat_begin > entry.flat_end || entry.flat_end > local) {
    return Refuse("BAD_RANGE", name, "elements %llu to %llu of %llu", ull(entry.flat_begin),
                  ull(entry.flat_end), ull(local));
  }
  return {};
}

Result<void> CheckSegments(const std::vector<Segment>& segments) {
  const auto refuse = [](const Segment& segment, const char* what) {
    return Refuse("BAD_SEGMENT", segment.name, "%s", what);
  };
  if (segments.empty() || segments.size() > kMostSegments) {
    return MakeError(Code::kInvalidArgument, "BAD_SEGMENT", "%zu segments; 1 to %u are right",
                     segments.size(), kMostSegments);
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    const bool raw = segment.encoding == Encoding::kRaw;
    if (segment.name.empty() || segment.name.size() > 64 ||
        segment.name.find('\0') != std::string::npos) {
      return refuse(segment, "a segment's name has 1 to 64 bytes, none of them zero");
    }
    if (!IsEncoding(uint32_t(segment.encoding))) return refuse(segment, "no known encoding");
    if (raw ? segment.raw_group_bytes < 1 || segment.raw_group_bytes > 1024
            : segment.raw_group_bytes != 0) {
      return refuse(segment, "raw has 1 to 1024 bytes for 32 elements, others say 0");
    }
    if (segment.encoding == Encoding::kLo16 && i != 0) {
      return refuse(segment, "lo16 is for the first segment alone, which has weights");
    }
    for (size_t j = 0; j < i; ++j) {
      if (segments[j].name == segment.name) return refuse(segment, "two segments of that name");
    }
  }
  return {};
}

// The number of the local tensor's first element among its parameter's rounding bits: what stands
// before it along the cut axis, in slices of the local tensor. Along axis 0 that is its global
// index; along others it numbers the shards' elements shard by shard.
uint64_t CounterBase(const Entry& entry) {
  if (entry.tp_axis < 0) return 0;
  uint64_t slice = 1;
  for (size_t axis = 0; axis < entry.local_shape.size(); ++axis) {
    if (int32_t(axis) != entry.tp_axis) slice *= entry.local_shape[axis];
  }
  return entry.tp_offset * slice;
}

void PlaceAreas(const std::vector<Segment>& segments, int lo16, Bucket& bucket) {
  Bytes at = 0;
  const auto place = [&at](Bytes bytes) {
    const Area area = {at, bytes};
    at = RoundUp(at + bytes, kFileAlign);
    return area;
  };
  for (const Segment& segment : segments) {
    bucket.segments.push_back(place(EncodedBytes(segment, bucket.numel)));
  }
  if (lo16 >= 0) bucket.ties = place(TieBitsBytes(bucket.numel));
  bucket.live_bytes = at;
  if (lo16 >= 0) bucket.weights = place(bucket.numel * 2);
  bucket.saved_bytes = at;
}

// What the bytes depend on, as bytes: every number as eight, texts with their length before them.
class Description {
 public:
  void Number(uint64_t n) { bytes_.append(reinterpret_cast<const char*>(&n), sizeof n); }
  void Text(const std::string& text) {
    Number(text.size());
    bytes_ += text;
  }
  void Shape(const std::vector<uint64_t>& shape) {
    Number(shape.size());
    for (const uint64_t n : shape) Number(n);
  }
  Digest Hash() const { return HashBytes(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace

uint64_t ParameterId(std::string_view name) { return HashBytes(name).low; }

Result<uint64_t> NumelOf(const std::vector<uint64_t>& shape) {
  uint64_t numel = 1;
  for (const uint64_t n : shape) {
    if (n == 0) return uint64_t{0};
  }
  for (const uint64_t n : shape) {
    if (n > kMostElements / numel) {
      return MakeError(Code::kInvalidArgument, "TOO_LARGE", "a shape of more than 2^48 elements");
    }
    numel *= n;
  }
  return numel;
}

Result<Layout> Layout::Make(std::vector<Entry> entries, std::vector<Segment> segments,
                            uint64_t bucket_numel) {
  if (auto r = CheckSegments(segments); !r.ok()) return r.error();
  if (bucket_numel > kMostBucket) {
    return MakeError(Code::kInvalidArgument, "BUCKET_SIZE",
                     "buckets of %llu elements; %llu at most, or 0 for a size by the total",
                     ull(bucket_numel), ull(kMostBucket));
  }
  if (entries.size() > UINT32_MAX) {
    return MakeError(Code::kInvalidArgument, "TOO_LARGE", "%zu entries", entries.size());
  }
  Layout layout;
  for (const Entry& entry : entries) {
    if (auto r = CheckEntry(entry); !r.ok()) return r.error();
    layout.numel_ += entry.flat_end - entry.flat_begin;
    if (layout.numel_ > kMostElements) {
      return MakeError(Code::kInvalidArgument, "TOO_LARGE", "more than 2^48 elements in one store");
    }
  }
  std::vector<uint32_t>& by_name = layout.by_name_;
  by_name.resize(entries.size());
  std::iota(by_name.begin(), by_name.end(), 0u);
  std::sort(by_name.begin(), by_name.end(),
            [&](uint32_t a, uint32_t b) { return entries[a].name < entries[b].name; });
  for (size_t i = 1; i < by_name.size(); ++i) {
    if (entries[by_name[i - 1]].name == entries[by_name[i]].name) {
      return Refuse("DUPLICATE_NAME", entries[by_name[i]].name, "two entries of that name");
    }
  }
  layout.entries_ = std::move(entries);
  layout.segments_ = std::move(segments);
  if (layout.segments_[0].encoding == Encoding::kLo16) layout.lo16_ = 0;
  if (bucket_numel == 0) {
    bucket_numel = std::clamp(layout.numel_ / 32, kLeastAutoBucket, kMostBucket);
  }
  layout.bucket_numel_ = RoundUp(bucket_numel, kGroup);
  if (auto r = layout.Cut(); !r.ok()) return r.error();
  layout.Stamp();
  return layout;
}

Result<void> Layout::Cut() {
  const auto close = [this] {
    Bucket& bucket = buckets_.back();
    bucket.numel = RoundUp(bucket.numel, kGroup);
    PlaceAreas(segments_, lo16_, bucket);
  };
  for (size_t index = 0; index < entries_.size(); ++index) {
    const Entry& entry = entries_[index];
    const uint64_t base = CounterBase(entry);
    for (uint64_t at = entry.flat_begin; at < entry.flat_end;) {
      if (buckets_.empty() || RoundUp(buckets_.back().numel, kGroup) == bucket_numel_) {
        if (!buckets_.empty()) close();
        if (buckets_.size() == kMostBuckets) {
          return MakeError(Code::kInvalidArgument, "BUCKET_SIZE",
                           "more than %u buckets of %llu elements", kMostBuckets,
                           ull(bucket_numel_));
        }
        buckets_.emplace_back();
      }
      Bucket& bucket = buckets_.back();
      const uint64_t position = RoundUp(bucket.numel, kGroup) + at % kGroup;
      const uint64_t take = std::min(entry.flat_end - at, bucket_numel_ - position);
      bucket.pieces.push_back({uint32_t(index), at, at + take, position, base + at});
      bucket.numel = position + take;
      at += take;
    }
  }
  if (!buckets_.empty()) close();
  return {};
}

void Layout::Stamp() {
  Description all;
  all.Text("parkade store layout 1");
  all.Number(bucket_numel_);
  all.Number(segments_.size());
  for (const Segment& segment : segments_) {
    all.Text(segment.name);
    all.Number(uint32_t(segment.encoding));
    all.Number(segment.raw_group_bytes);
  }
  all.Number(entries_.size());
  for (const Entry& entry : entries_) {
    all.Text(entry.name);
    all.Shape(entry.global_shape);
    all.Number(uint64_t(int64_t{entry.tp_axis}));
    all.Number(entry.tp_offset);
    all.Shape(entry.local_shape);
    all.Number(entry.flat_begin);
    all.Number(entry.flat_end);
  }
  hash_ = all.Hash();
}

int64_t Layout::Find(std::string_view name) const {
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [this](uint32_t index, std::string_view wanted) { return entries_[index].name < wanted; });
  return at != by_name_.end() && entries_[*at].name == name ? int64_t{*at} : -1;
}

Bytes Layout::live_bytes() const {
  Bytes bytes = 0;
  for (const Bucket& bucket : buckets_) bytes += bucket.live_bytes;
  return bytes;
}

}  // namespace parkade::store
