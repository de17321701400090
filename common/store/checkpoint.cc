// Opens a checkpoint and reads its blocks.
#include "common/store/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/store/bytes_hash.h"
#include "common/store/checkpoint_files.h"
#include "common/store/file_bytes.h"
#include "common/store/manifest_bytes.h"

namespace parkade::store {
namespace {

using ull = unsigned long long;

// A parameter whose bytes a block of a bucket's file holds, for an error; "padding" for none.
std::string ParameterAt(const Layout& layout, uint32_t index, Bytes begin, Bytes end) {
  const Bucket& bucket = layout.buckets()[index];
  for (size_t i = 0; i < bucket.segments.size(); ++i) {
    const Area& area = bucket.segments[i];
    if (area.bytes == 0 || area.offset >= end || area.offset + area.bytes <= begin) continue;
    // Elements of a segment lie evenly, but for scales behind them: near enough for a name.
    const Bytes from = Less(begin, area.offset);
    const uint64_t position = uint64_t(double(from) / double(area.bytes) * double(bucket.numel));
    for (const Piece& piece : bucket.pieces) {
      if (piece.position + piece.numel() <= position) continue;
      return layout.segments()[i].name + " of " + layout.entries()[piece.entry].name;
    }
  }
  return "padding";
}

Result<std::vector<Digest>> ReadComplete(int directory, const std::string& path, uint64_t step) {
  auto content = ReadWhole(directory, kCompleteFile,
                           sizeof(CompleteHeader) + Bytes{kMostRanks} * sizeof(Digest), path);
  if (!content.ok()) {
    if (content.error().os_errno != ENOENT) return content.error();
    return MakeError(Code::kFailedPrecondition, "INCOMPLETE",
                     "%s: has no file COMPLETE: not all ranks saved", path.c_str());
  }
  const auto torn = [&path](const char* what) {
    return MakeError(Code::kDataLoss, "TORN_COMPLETE", "%s/COMPLETE: %s", path.c_str(), what);
  };
  CompleteHeader header;
  if (content->size() < sizeof header) return torn("too short");
  memcpy(&header, content->data(), sizeof header);
  const Digest saved = {header.digest_low, header.digest_high};
  memset(content->data() + offsetof(CompleteHeader, digest_low), 0, sizeof saved);
  if (header.magic != kCompleteMagic || header.version != kManifestVersion ||
      HashBytes(*content) != saved) {
    return torn("not as it was written");
  }
  if (header.ranks == 0 || header.step != step ||
      content->size() != sizeof header + size_t{header.ranks} * sizeof(Digest)) {
    return torn("of another step, or not as long as its ranks need");
  }
  std::vector<Digest> digests(header.ranks);
  memcpy(digests.data(), content->data() + sizeof header, digests.size() * sizeof(Digest));
  return digests;
}

Result<void> CheckLengths(int directory, const std::string& path, const Manifest& manifest) {
  for (uint32_t bucket = 0; bucket < manifest.buckets.size(); ++bucket) {
    const std::string name = BucketFile(manifest.rank, bucket);
    const Bytes expected = manifest.layout.buckets()[bucket].saved_bytes;
    struct stat st;
    if (fstatat(directory, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
      return OsError(errno, "%s/%s", path.c_str(), name.c_str());
    }
    if (!S_ISREG(st.st_mode) || Bytes(st.st_size) != expected) {
      return MakeError(Code::kDataLoss, "WRONG_LENGTH", "%s/%s: %llu bytes, %llu were saved",
                       path.c_str(), name.c_str(), ull(st.st_size), ull(expected));
    }
  }
  return {};
}

}  // namespace

Result<Manifest> ReadManifest(int directory, const std::string& path, uint32_t rank,
                              Digest& digest) {
  const std::string name = ManifestFile(rank);
  auto bytes = ReadWhole(directory, name, kMostManifest, path);
  if (!bytes.ok()) return bytes.error();
  auto manifest = ParseManifest(*bytes, path + "/" + name, digest);
  if (manifest.ok() && manifest->rank != rank) {
    return MakeError(Code::kDataLoss, "OTHER_RANK", "%s/%s: the manifest of rank %u", path.c_str(),
                     name.c_str(), manifest->rank);
  }
  return manifest;
}

Result<Checkpoint> Checkpoint::Open(const std::string& base, uint64_t step) {
  Checkpoint checkpoint;
  checkpoint.path_ = base + "/" + StepDirectory(step);
  auto directory = OpenDirectory(checkpoint.path_);
  if (!directory.ok()) return directory.error();
  auto digests = ReadComplete(directory->get(), checkpoint.path_, step);
  if (!digests.ok()) return digests.error();
  for (uint32_t rank = 0; rank < digests->size(); ++rank) {
    Digest digest;
    auto manifest = ReadManifest(directory->get(), checkpoint.path_, rank, digest);
    if (!manifest.ok()) return manifest.error();
    if (digest != (*digests)[rank] || manifest->step != step ||
        manifest->ranks != digests->size()) {
      return MakeError(Code::kDataLoss, "OTHER_MANIFEST",
                       "%s/%s: not the manifest with which this checkpoint was completed",
                       checkpoint.path_.c_str(), ManifestFile(rank).c_str());
    }
    if (auto r = CheckLengths(directory->get(), checkpoint.path_, *manifest); !r.ok()) {
      return r.error();
    }
    checkpoint.manifests_.push_back(std::move(*manifest));
  }
  checkpoint.directory_ = std::move(*directory);
  return checkpoint;
}

Result<void> Checkpoint::ReadBucket(uint32_t rank, uint32_t bucket,
                                    std::vector<uint8_t>& bytes) const {
  const Manifest& manifest = manifests_[rank];
  const std::string name = BucketFile(rank, bucket);
  const Fd fd(openat(directory_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return OsError(errno, "%s/%s", path_.c_str(), name.c_str());
  bytes.resize(manifest.layout.buckets()[bucket].saved_bytes);
  if (auto r = ReadAt(fd.get(), bytes.data(), bytes.size(), 0, name.c_str()); !r.ok()) return r;
  const std::vector<Digest>& digests = manifest.buckets[bucket].digests;
  for (size_t block = 0; block < digests.size(); ++block) {
    const Bytes at = block * kHashBlock, end = std::min<Bytes>(at + kHashBlock, bytes.size());
    const Digest found = HashBlock(bytes.data() + at, end - at);
    if (found == digests[block]) continue;
    return MakeError(Code::kDataLoss, "DAMAGED_BLOCK",
                     "%s: block %zu (bytes %llu to %llu, %.60s) is %016llx, %016llx was saved",
                     name.c_str(), block, ull(at), ull(end),
                     ParameterAt(manifest.layout, bucket, at, end).c_str(), ull(found.low),
                     ull(digests[block].low));
  }
  return {};
}

Result<void> Checkpoint::Verify() const {
  std::vector<uint8_t> bytes;
  for (uint32_t rank = 0; rank < manifests_.size(); ++rank) {
    for (uint32_t bucket = 0; bucket < manifests_[rank].buckets.size(); ++bucket) {
      if (auto r = ReadBucket(rank, bucket, bytes); !r.ok()) return r;
    }
  }
  return {};
}

}  // namespace parkade::store
