// Takes buckets, says their digests, and publishes.
#include "shim/stream/store_saver.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/store/checkpoint.h"
#include "common/store/file_bytes.h"
#include "shim/cuda/scoped_context.h"
#include "shim/pause/host_slice.h"
#include "shim/stream/lane_pass.h"

namespace parkade::shim {

Result<std::unique_ptr<StoreSaver>> StoreSaver::Begin(const StreamTools& tools,
                                                      const BucketWork& work, Wanted wanted) {
  auto writer = store::CheckpointWriter::Begin(wanted.base, wanted.manifest);
  if (!writer.ok()) return writer.error();
  std::unique_ptr<StoreSaver> saver(
      new StoreSaver(tools, work, std::move(wanted), std::move(*writer)));
  if (auto r = saver->image_.Open(); !r.ok()) return r.error();
  auto mapped = MapPages(kHashBlock);
  if (!mapped.ok()) return mapped.error();
  saver->memory_ = *mapped;
  saver->cloned_ = saver->CloneAll();
  if (saver->cloned_ && tools.layout.lo16() < 0) {
    const MutexLock lock(saver->mu_);
    saver->taken_ = uint32_t(tools.layout.buckets().size());
  }
  auto started = Thread::Start("parkade-save", Run, saver.get());
  if (!started.ok()) return started.error();
  saver->thread_ = std::move(*started);
  return saver;
}

StoreSaver::StoreSaver(const StreamTools& tools, const BucketWork& work, Wanted wanted,
                       store::CheckpointWriter writer)
    : tools_(tools), wanted_(std::move(wanted)), image_(tools, work), writer_(std::move(writer)) {}

StoreSaver::~StoreSaver() {
  {
    const MutexLock lock(mu_);
    stops_ = true;
  }
  thread_.Join();
  if (memory_ != nullptr) UnmapPages(memory_, kHashBlock);
}

void StoreSaver::AwaitBucket(uint32_t bucket) {
  const MutexLock lock(mu_);
  while (taken_ <= bucket && !ended_) changed_.WaitUntil(mu_, Deadline::InMs(1000));
}

Result<StoreSaver::Outcome> StoreSaver::Await(Deadline by) {
  const MutexLock lock(mu_);
  while (!ended_) {
    if (by.Passed()) {
      return MakeError(Code::kDeadlineExceeded, "NOT_SAVED", "the save goes on: bucket %u of %zu",
                       taken_, tools_.layout.buckets().size());
    }
    changed_.WaitUntil(mu_, by);
  }
  return outcome_;
}

void StoreSaver::Run(void* self) { static_cast<StoreSaver*>(self)->RunAll(); }

void StoreSaver::RunAll() {
  const ScopedContext current(tools_.driver, tools_.context);
  const ScopedRelaxedCapture relaxed(tools_.driver);
  Result<void> saved = SaveAll();
  Outcome outcome{false, cloned_};
  if (saved.ok()) {
    auto complete = store::CompleteCheckpoint(wanted_.base, wanted_.manifest.step);
    if (!complete.ok()) {
      saved = complete.error();
    } else {
      outcome.complete = *complete;
    }
  }
  if (saved.ok() && outcome.complete && wanted_.generations != 0) {
    // Several ranks may be at this; what is left over the next save removes.
    [[maybe_unused]] const auto pruned = store::PruneGenerations(wanted_.base, wanted_.generations);
  }
  const MutexLock lock(mu_);
  if (saved.ok()) {
    outcome_ = outcome;
  } else {
    outcome_ = saved.error();
  }
  ended_ = true;
  changed_.NotifyAll();
}

Result<void> StoreSaver::SaveAll() {
  const auto buckets = uint32_t(tools_.layout.buckets().size());
  LanePass pass;
  for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
    if (auto r = StopIfTold(); !r.ok()) return r;
    pass.Enter();
    const Result<void> taken = Take(bucket);
    pass.Leave();
    if (!taken.ok()) return taken;
    const MutexLock lock(mu_);
    taken_ = std::max(taken_, bucket + 1);
    changed_.NotifyAll();
  }
  for (uint32_t bucket = 0; cloned_ && bucket < buckets; ++bucket) {
    if (auto r = StopIfTold(); !r.ok()) return r;
    pass.Enter();
    const Result<void> read = ReadClone(bucket);
    pass.Leave();
    if (!read.ok()) return read;
  }
  return writer_.Publish();
}

Result<void> StoreSaver::StopIfTold() {
  const MutexLock lock(mu_);
  if (!stops_) return {};
  return MakeError(Code::kAborted, "ABORTED", "the save was given up");
}

Result<Fd> StoreSaver::Create(uint32_t bucket) const {
  const std::string path = writer_.BucketPath(bucket);
  Fd to(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!to) return OsError(errno, "%s: create", path.c_str());
  return to;
}

bool StoreSaver::CloneAll() {
  for (uint32_t bucket = 0; bucket < wanted_.states.size(); ++bucket) {
    auto to = Create(bucket);
    if (!to.ok() || !Clone(bucket, to->get())) return false;
  }
  return !wanted_.states.empty();
}

bool StoreSaver::Clone(uint32_t number, int to) {
  const store::Bucket& bucket = tools_.bucket(number);
  const store::BucketState& state = wanted_.states[number];
  // Of a bucket that was filled alone, what is behind its first segment is nobody's.
  if (!tools_.in_host[number].empty() || state.main_only) return false;
  if (ioctl(to, FICLONE, tools_.files.fds()[state.file]) != 0) return false;
  return ftruncate(to, off_t(bucket.live_bytes)) == 0 &&
         ftruncate(to, off_t(bucket.saved_bytes)) == 0;
}

Result<void> StoreSaver::Take(uint32_t bucket) {
  if (cloned_ && tools_.layout.lo16() < 0) return {};
  if (auto r = image_.Begin(bucket, wanted_.states[bucket]); !r.ok()) return r;
  if (cloned_) {
    const Fd to(open(writer_.BucketPath(bucket).c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!to) return OsError(errno, "%s: open", writer_.BucketPath(bucket).c_str());
    return AddWeights(bucket, to.get());
  }
  auto to = Create(bucket);
  if (!to.ok()) return to.error();
  return Copy(bucket, to->get());
}

Result<void> StoreSaver::Copy(uint32_t number, int to) {
  const std::string path = writer_.BucketPath(number);
  const Bytes size = tools_.bucket(number).saved_bytes;
  store::SavedBucket saved;
  for (Bytes at = 0; at < size; at += kHashBlock) {
    const Bytes part = std::min<Bytes>(size - at, kHashBlock);
    if (auto r = image_.Read(at, part, memory_); !r.ok()) return r;
    saved.digests.push_back(HashBlock(memory_, part));
    if (auto r = store::WriteAt(to, memory_, part, at, path.c_str()); !r.ok()) return r;
    // No bytes of a store stay in the page cache: written now, they can be dropped behind.
    sync_file_range(to, off_t(at), off_t(part), SYNC_FILE_RANGE_WRITE);
  }
  saved.ties = image_.ties();
  saved.weight_sum = wanted_.states[number].weight_sum;
  if (fdatasync(to) != 0) return OsError(errno, "%s: fdatasync", path.c_str());
  posix_fadvise(to, 0, 0, POSIX_FADV_DONTNEED);
  return writer_.AddBucket(number, std::move(saved));
}

Result<void> StoreSaver::AddWeights(uint32_t number, int to) {
  const store::Area& weights = tools_.bucket(number).weights;
  const std::string path = writer_.BucketPath(number);
  for (Bytes at = 0; at < weights.bytes; at += kHashBlock) {
    const Bytes part = std::min<Bytes>(weights.bytes - at, kHashBlock);
    if (auto r = image_.ReadWeights(at, part, memory_); !r.ok()) return r;
    if (auto r = store::WriteAt(to, memory_, part, weights.offset + at, path.c_str()); !r.ok()) {
      return r;
    }
  }
  return {};
}

Result<void> StoreSaver::ReadClone(uint32_t number) {
  const std::string path = writer_.BucketPath(number);
  const Fd from(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!from) return OsError(errno, "%s: open", path.c_str());
  const Bytes size = tools_.bucket(number).saved_bytes;
  const store::BucketState& state = wanted_.states[number];
  store::SavedBucket saved{state.weight_sum, state.ties, {}};
  for (Bytes at = 0; at < size; at += kHashBlock) {
    const Bytes part = std::min<Bytes>(size - at, kHashBlock);
    if (auto r = store::ReadAt(from.get(), memory_, part, at, path.c_str()); !r.ok()) return r;
    saved.digests.push_back(HashBlock(memory_, part));
  }
  posix_fadvise(from.get(), 0, 0, POSIX_FADV_DONTNEED);
  return writer_.AddBucket(number, std::move(saved));
}

}  // namespace parkade::shim
