// Writes the files of a checkpoint in the order that lets nobody see a half of it.
#include "common/store/checkpoint_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/store/bytes_hash.h"
#include "common/store/checkpoint.h"
#include "common/store/checkpoint_files.h"
#include "common/store/file_bytes.h"
#include "common/store/manifest_bytes.h"

namespace parkade::store {
namespace {

template <typename... Numbers>
std::string Formatted(const char* format, Numbers... numbers) {
  char text[64];
  snprintf(text, sizeof text, format, numbers...);
  return text;
}

}  // namespace

std::string StepDirectory(uint64_t step) {
  return Formatted("step-%012llu", (unsigned long long)step);
}
std::string ManifestFile(uint32_t rank) { return Formatted("rank-%05u.manifest", rank); }
std::string BucketFile(uint32_t rank, uint32_t bucket) {
  return Formatted("rank-%05u.bucket-%05u", rank, bucket);
}

Result<CheckpointWriter> CheckpointWriter::Begin(const std::string& base, Manifest manifest) {
  CheckpointWriter writer;
  writer.path_ = base + "/" + StepDirectory(manifest.step);
  if (mkdir(writer.path_.c_str(), 0700) != 0 && errno != EEXIST) {
    return OsError(errno, "%s: mkdir", writer.path_.c_str());
  }
  auto directory = OpenDirectory(writer.path_);
  if (!directory.ok()) return directory.error();
  writer.directory_ = std::move(*directory);
  if (faccessat(writer.directory_.get(), kCompleteFile, F_OK, 0) == 0) {
    return MakeError(Code::kAlreadyExists, "COMPLETE_ALREADY", "%s: a complete checkpoint",
                     writer.path_.c_str());
  }
  // A manifest of an earlier attempt would vouch for files that now change.
  const std::string name = ManifestFile(manifest.rank);
  if (unlinkat(writer.directory_.get(), name.c_str(), 0) != 0 && errno != ENOENT) {
    return OsError(errno, "%s/%s: unlink", writer.path_.c_str(), name.c_str());
  }
  manifest.buckets.assign(manifest.layout.buckets().size(), {});
  writer.there_.resize(manifest.buckets.size());
  writer.manifest_ = std::move(manifest);
  return writer;
}

std::string CheckpointWriter::BucketPath(uint32_t bucket) const {
  return path_ + "/" + BucketFile(manifest_.rank, bucket);
}

Result<void> CheckpointWriter::WriteBucket(uint32_t bucket, const uint8_t* bytes, uint32_t ties,
                                           uint64_t weight_sum) {
  SavedBucket saved = {weight_sum, ties, {}};
  if (bucket >= there_.size()) return AddBucket(bucket, {});
  const Bytes size = manifest_.layout.buckets()[bucket].saved_bytes;
  const std::string name = BucketFile(manifest_.rank, bucket);
  const Fd fd(openat(directory_.get(), name.c_str(),
                     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return OsError(errno, "%s: create", BucketPath(bucket).c_str());
  for (Bytes at = 0; at < size; at += kHashBlock) {
    const Bytes part = size - at < kHashBlock ? size - at : kHashBlock;
    saved.digests.push_back(HashBlock(bytes + at, part));
    if (auto r = WriteAt(fd.get(), bytes + at, part, at, name.c_str()); !r.ok()) return r;
  }
  return AddBucket(bucket, std::move(saved));
}

Result<void> CheckpointWriter::AddBucket(uint32_t bucket, SavedBucket saved) {
  if (bucket >= there_.size() ||
      saved.digests.size() != HashBlocksIn(manifest_.layout.buckets()[bucket].saved_bytes)) {
    return MakeError(Code::kInvalidArgument, "BAD_BUCKET", "%s: bucket %u with %zu blocks",
                     path_.c_str(), bucket, saved.digests.size());
  }
  manifest_.buckets[bucket] = std::move(saved);
  there_[bucket] = true;
  return {};
}

Result<void> CheckpointWriter::Publish() {
  for (uint32_t bucket = 0; bucket < there_.size(); ++bucket) {
    if (!there_[bucket]) {
      return MakeError(Code::kFailedPrecondition, "MISSING_BUCKET", "%s: bucket %u of rank %u",
                       path_.c_str(), bucket, manifest_.rank);
    }
    const std::string name = BucketFile(manifest_.rank, bucket);
    const Fd fd(openat(directory_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd || fdatasync(fd.get()) != 0) {
      return OsError(errno, "%s: fdatasync", BucketPath(bucket).c_str());
    }
  }
  Digest digest;
  auto bytes = PackManifest(manifest_, digest);
  if (!bytes.ok()) return bytes.error();
  if (fsync(directory_.get()) != 0) return OsError(errno, "%s: fsync", path_.c_str());
  const std::string name = ManifestFile(manifest_.rank);
  return AppearWhole(directory_.get(), name + ".tmp", name, *bytes, path_);
}

Result<bool> CompleteCheckpoint(const std::string& base, uint64_t step) {
  const std::string path = base + "/" + StepDirectory(step);
  auto directory = OpenDirectory(path);
  if (!directory.ok()) return directory.error();
  CompleteHeader header = {kCompleteMagic, kManifestVersion, 1, step, 0, 0};
  std::string digests;
  uint64_t set = 0;
  for (uint32_t rank = 0; rank < header.ranks; ++rank) {
    Digest digest;
    auto manifest = ReadManifest(directory->get(), path, rank, digest);
    if (!manifest.ok()) {
      if (manifest.error().os_errno == ENOENT) return false;
      return manifest.error();
    }
    if (rank == 0) {
      header.ranks = manifest->ranks;
      set = manifest->set;
    }
    // Left by an earlier attempt: its rank has yet to save.
    if (manifest->set != set) return false;
    if (manifest->ranks != header.ranks || manifest->step != step) {
      return MakeError(Code::kFailedPrecondition, "OTHER_SET",
                       "%s/%s: of step %llu and %u ranks, rank 0 has %u", path.c_str(),
                       ManifestFile(rank).c_str(), (unsigned long long)manifest->step,
                       manifest->ranks, header.ranks);
    }
    digests.append(reinterpret_cast<const char*>(&digest), sizeof digest);
  }
  std::string content(reinterpret_cast<const char*>(&header), sizeof header);
  content += digests;
  const Digest whole = HashBytes(content);
  memcpy(&content[offsetof(CompleteHeader, digest_low)], &whole, sizeof whole);
  // Several ranks may get here at once, with the same content.
  const std::string temporary = Formatted("COMPLETE.%d.tmp", int(getpid()));
  if (auto r = AppearWhole(directory->get(), temporary, kCompleteFile, content, path); !r.ok()) {
    return r.error();
  }
  // The step's directory itself is an entry of the base.
  auto above = OpenDirectory(base);
  if (!above.ok()) return above.error();
  if (fsync(above->get()) != 0) return OsError(errno, "%s: fsync", base.c_str());
  return true;
}

}  // namespace parkade::store
