// Packs and parses manifests.
#include "common/store/manifest.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "common/store/bytes_hash.h"
#include "common/store/manifest_bytes.h"

namespace parkade::store {
namespace {

using ull = unsigned long long;

constexpr size_t kDigestAt = offsetof(ManifestHeader, digest_low);

template <typename T>
void Append(std::string& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void Pad(std::string& bytes) { bytes.resize(RoundUp(bytes.size(), 8)); }

Digest DigestOfWhole(std::string_view bytes) {
  std::string copy(bytes);
  memset(&copy[kDigestAt], 0, sizeof(Digest));
  return HashBytes(copy);
}

// Where the parts lie, by the header's counts alone.
struct Parts {
  uint64_t segments, entries, shapes, buckets, digests, names, user, end;

  explicit Parts(const ManifestHeader& header) {
    uint64_t at = sizeof header;
    const auto take = [&at](uint64_t count, uint64_t size) {
      const uint64_t here = at;
      at = RoundUp(at + count * size, 8);
      return here;
    };
    segments = take(header.segments, sizeof(ManifestSegment));
    entries = take(header.entries, sizeof(ManifestEntry));
    shapes = take(header.shapes, sizeof(uint64_t));
    buckets = take(header.buckets, sizeof(ManifestBucket));
    digests = take(header.digests, sizeof(Digest));
    names = take(header.names_bytes, 1);
    user = take(header.user_bytes, 1);
    end = at;
  }
};

// The numbers of a manifest whose header and digest are right.
class Reader {
 public:
  Reader(std::string_view bytes, const ManifestHeader& header, const std::string& name)
      : bytes_(bytes), header_(header), parts_(header), name_(name) {}

  Result<Manifest> Read() {
    std::vector<Segment> segments(header_.segments);
    for (uint32_t i = 0; i < header_.segments; ++i) {
      const auto raw = At<ManifestSegment>(parts_.segments, i);
      if (!Name(raw.name_at, raw.name_bytes, segments[i].name) || !IsEncoding(raw.encoding)) {
        return Bad("segment %llu has no known encoding, or its name lies outside", i);
      }
      segments[i].encoding = Encoding(raw.encoding);
      segments[i].raw_group_bytes = raw.raw_group_bytes;
    }
    std::vector<Entry> entries(header_.entries);
    for (uint32_t i = 0; i < header_.entries; ++i) {
      if (!ReadEntry(At<ManifestEntry>(parts_.entries, i), entries[i])) {
        return Bad("the name or shape of entry %llu lies outside", i);
      }
    }
    // Before any bucket is made for it: its elements could be more than its buckets hold.
    uint64_t numel = 0;
    for (const Entry& entry : entries) {
      const uint64_t here = entry.flat_end - entry.flat_begin;
      if (entry.flat_begin > entry.flat_end || here > kMostElements) {
        return Bad("an entry of %llu elements", here);
      }
      numel = std::min(numel + here, kMostElements);
    }
    if (header_.bucket_numel == 0 || header_.bucket_numel > kMostBucket ||
        numel > header_.buckets * header_.bucket_numel) {
      return Bad("its buckets do not hold %llu elements", numel);
    }
    auto layout = Layout::Make(std::move(entries), std::move(segments), header_.bucket_numel);
    if (!layout.ok()) {
      return MakeError(Code::kDataLoss, "BAD_MANIFEST", "%s: %s", name_.c_str(),
                       layout.error().what);
    }
    const Digest saved = {header_.layout_low, header_.layout_high};
    if (layout->hash() != saved || layout->bucket_numel() != header_.bucket_numel) {
      return Bad("its layout is not the one that was saved (%llu entries)", header_.entries);
    }
    Manifest manifest;
    manifest.step = header_.step;
    manifest.seed = header_.seed;
    manifest.rank = header_.rank;
    manifest.ranks = header_.ranks;
    manifest.set = header_.set;
    manifest.layout = std::move(*layout);
    if (manifest.layout.buckets().size() != header_.buckets) {
      return Bad("%llu buckets do not hold its entries", header_.buckets);
    }
    uint64_t next = 0;
    for (uint32_t i = 0; i < header_.buckets; ++i) {
      const Bucket& bucket = manifest.layout.buckets()[i];
      const auto raw = At<ManifestBucket>(parts_.buckets, i);
      const uint64_t blocks = HashBlocksIn(bucket.saved_bytes);
      if (blocks > header_.digests - next || raw.ties > bucket.numel ||
          (raw.ties != 0 && manifest.layout.lo16() < 0)) {
        return Bad("bucket %llu has too few digests, or too many ties", i);
      }
      SavedBucket& saved_bucket = manifest.buckets.emplace_back();
      saved_bucket.weight_sum = raw.weight_sum;
      saved_bucket.ties = raw.ties;
      saved_bucket.digests.resize(blocks);
      memcpy(saved_bucket.digests.data(), bytes_.data() + parts_.digests + next * sizeof(Digest),
             blocks * sizeof(Digest));
      next += blocks;
    }
    if (next != header_.digests) return Bad("%llu digests are too many", header_.digests);
    manifest.user = bytes_.substr(parts_.user, header_.user_bytes);
    return manifest;
  }

 private:
  template <typename T>
  T At(uint64_t part, uint64_t index) const {
    T value;
    memcpy(&value, bytes_.data() + part + index * sizeof value, sizeof value);
    return value;
  }

  bool Name(uint32_t at, uint32_t length, std::string& name) const {
    if (at > header_.names_bytes || length > header_.names_bytes - at) return false;
    name = bytes_.substr(parts_.names + at, length);
    return true;
  }

  bool ReadEntry(const ManifestEntry& raw, Entry& entry) const {
    if (!Name(raw.name_at, raw.name_bytes, entry.name)) return false;
    if (raw.axes > kMostAxes || raw.shape_at > header_.shapes ||
        raw.axes * 2 > header_.shapes - raw.shape_at) {
      return false;
    }
    for (uint32_t axis = 0; axis < raw.axes; ++axis) {
      entry.global_shape.push_back(At<uint64_t>(parts_.shapes, raw.shape_at + axis));
      entry.local_shape.push_back(At<uint64_t>(parts_.shapes, raw.shape_at + raw.axes + axis));
    }
    entry.tp_axis = raw.tp_axis;
    entry.tp_offset = raw.tp_offset;
    entry.flat_begin = raw.flat_begin;
    entry.flat_end = raw.flat_end;
    entry.group = raw.group;
    entry.user_tag = raw.user_tag;
    entry.replica = raw.replica;
    return true;
  }

  [[gnu::format(printf, 2, 0)]] Error Bad(const char* format, ull number) const {
    char detail[100];
    snprintf(detail, sizeof detail, format, number);
    return MakeError(Code::kDataLoss, "BAD_MANIFEST", "%s: %s", name_.c_str(), detail);
  }

  const std::string_view bytes_;
  const ManifestHeader& header_;
  const Parts parts_;
  const std::string& name_;
};

}  // namespace

Result<std::string> PackManifest(const Manifest& manifest, Digest& digest) {
  const Layout& layout = manifest.layout;
  std::string segments, entries, shapes, buckets, digests, names;
  const auto name = [&names](const std::string& text, uint32_t& at, uint32_t& length) {
    at = uint32_t(names.size());
    length = uint32_t(text.size());
    names += text;
  };
  for (const Segment& segment : layout.segments()) {
    ManifestSegment raw = {0, 0, uint32_t(segment.encoding), segment.raw_group_bytes};
    name(segment.name, raw.name_at, raw.name_bytes);
    Append(segments, raw);
  }
  for (const Entry& entry : layout.entries()) {
    if (names.size() > kMostManifest) break;  // the sum below says so
    ManifestEntry raw = {};
    name(entry.name, raw.name_at, raw.name_bytes);
    raw.shape_at = uint32_t(shapes.size() / sizeof(uint64_t));
    raw.axes = uint32_t(entry.global_shape.size());
    for (const uint64_t n : entry.global_shape) Append(shapes, n);
    for (const uint64_t n : entry.local_shape) Append(shapes, n);
    raw.tp_axis = entry.tp_axis;
    raw.group = entry.group;
    raw.tp_offset = entry.tp_offset;
    raw.flat_begin = entry.flat_begin;
    raw.flat_end = entry.flat_end;
    raw.user_tag = entry.user_tag;
    raw.replica = entry.replica;
    Append(entries, raw);
  }
  ManifestHeader header = {};
  for (const SavedBucket& bucket : manifest.buckets) {
    Append(buckets, ManifestBucket{bucket.weight_sum, bucket.ties, 0});
    for (const Digest& block : bucket.digests) Append(digests, block);
    header.digests += bucket.digests.size();
  }
  header.magic = kManifestMagic;
  header.version = kManifestVersion;
  header.header_bytes = sizeof header;
  header.step = manifest.step;
  header.seed = manifest.seed;
  header.rank = manifest.rank;
  header.ranks = manifest.ranks;
  header.set = manifest.set;
  header.layout_low = layout.hash().low;
  header.layout_high = layout.hash().high;
  header.bucket_numel = layout.bucket_numel();
  header.segments = uint32_t(layout.segments().size());
  header.entries = uint32_t(layout.entries().size());
  header.shapes = uint32_t(shapes.size() / sizeof(uint64_t));
  header.buckets = uint32_t(manifest.buckets.size());
  header.names_bytes = names.size();
  header.user_bytes = manifest.user.size();
  header.total_bytes = Parts(header).end;
  if (header.total_bytes > kMostManifest) {
    return MakeError(Code::kInvalidArgument, "TOO_LARGE",
                     "a manifest of %llu bytes; 1 GiB at most: take larger buckets",
                     ull(header.total_bytes));
  }
  std::string bytes;
  Append(bytes, header);
  const std::string* const parts[] = {&segments, &entries, &shapes,       &buckets,
                                      &digests,  &names,   &manifest.user};
  for (const std::string* part : parts) {
    bytes += *part;
    Pad(bytes);
  }
  digest = DigestOfWhole(bytes);
  memcpy(&bytes[kDigestAt], &digest, sizeof digest);
  return bytes;
}

Result<Manifest> ParseManifest(std::string_view bytes, const std::string& name, Digest& digest) {
  const auto torn = [&name](const char* what) {
    return MakeError(Code::kDataLoss, "TORN_MANIFEST", "%s: %s", name.c_str(), what);
  };
  ManifestHeader header;
  if (bytes.size() < sizeof header) return torn("shorter than a manifest's header");
  memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kManifestMagic) {
    return MakeError(Code::kFailedPrecondition, "NOT_A_MANIFEST",
                     "%s: does not begin as a manifest", name.c_str());
  }
  if (header.version != kManifestVersion || header.header_bytes != sizeof header) {
    return MakeError(Code::kFailedPrecondition, "MANIFEST_VERSION",
                     "%s: version %u, this library reads %u", name.c_str(), header.version,
                     kManifestVersion);
  }
  // Counts above this cannot be right, and below it their sums cannot overflow.
  if (header.digests > kMostManifest || header.names_bytes > kMostManifest ||
      header.user_bytes > kMostManifest || bytes.size() > kMostManifest ||
      header.total_bytes != bytes.size() || Parts(header).end != bytes.size()) {
    return torn("has another length than its header says");
  }
  digest = DigestOfWhole(bytes);
  if (digest.low != header.digest_low || digest.high != header.digest_high) {
    return torn("other bytes than were written");
  }
  if (header.ranks == 0 || header.ranks > kMostRanks || header.rank >= header.ranks) {
    return MakeError(Code::kDataLoss, "BAD_MANIFEST", "%s: rank %u of %u", name.c_str(),
                     header.rank, header.ranks);
  }
  return Reader(bytes, header, name).Read();
}

}  // namespace parkade::store
