// Puts the image together.
#include "shim/stream/bucket_image.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "common/hash/block_hash.h"
#include "common/store/ties.h"

namespace parkade::shim {
namespace {

constexpr uint64_t kMemoryMs = 60'000;

// The part of [at, at + bytes) that lies in [begin, end), as offsets in the image.
struct Overlap {
  Overlap(Bytes at, Bytes bytes, Bytes begin, Bytes end)
      : first(std::max(at, begin)), last(std::max(first, std::min(at + bytes, end))) {}
  Bytes size() const { return last - first; }
  const Bytes first, last;
};

}  // namespace

BucketImage::BucketImage(const StreamTools& tools, const BucketWork& work)
    : tools_(tools), lane_(tools.driver, CopyLane::Direction::kOut) {
  for (uint32_t i = 0; i < tools.layout.entries().size(); ++i) {
    weights_.push_back(work.tensors(i).weight);
  }
}

Result<void> BucketImage::Open() {
  if (tools_.layout.lo16() < 0) return {};
  if (auto r = lane_.Open(tools_.shelf); !r.ok()) return r;
  auto taken =
      tools_.pool.Take(kHashBlock, kHashBlock, HostPool::For::kStage, Deadline::InMs(kMemoryMs));
  if (!taken.ok()) return taken.error();
  pinned_ = std::move(*taken);
  return {};
}

Result<void> BucketImage::Begin(uint32_t number, const store::BucketState& state) {
  bucket_ = number;
  state_ = state;
  packed_ties_.clear();
  const store::Bucket& bucket = tools_.bucket(number);
  if (tools_.in_host[number].empty() || tools_.layout.lo16() < 0) return {};
  std::vector<uint32_t> bits(bucket.numel / 32);
  CopyHost(bucket.ties.offset, store::TieBitsBytes(bucket.numel),
           reinterpret_cast<char*>(bits.data()));
  state_.ties = store::CountTies(bits);
  packed_ties_.resize(store::TieMapBytes(state_.ties, bucket.numel));
  store::PackTies(bits, state_.ties, packed_ties_);
  return {};
}

Result<void> BucketImage::Read(Bytes at, Bytes bytes, char* to) {
  const store::Bucket& bucket = tools_.bucket(bucket_);
  memset(to, 0, bytes);
  const Overlap live(at, bytes, 0, bucket.live_bytes);
  if (live.size() != 0) {
    if (!tools_.in_host[bucket_].empty()) {
      ReadHost(live.first, live.size(), to + (live.first - at));
    } else if (auto r = ReadFile(live.first, live.size(), to + (live.first - at)); !r.ok()) {
      return r;
    }
  }
  if (state_.main_only) {
    const Overlap unwritten(at, bytes, RoundUp(bucket.segments[0].bytes, store::kFileAlign),
                            SegmentsEnd(bucket));
    memset(to + (unwritten.first - at), 0, unwritten.size());
  }
  const Overlap weights(at, bytes, bucket.weights.offset,
                        bucket.weights.offset + bucket.weights.bytes);
  if (weights.size() == 0) return {};
  return ReadWeights(weights.first - bucket.weights.offset, weights.size(),
                     to + (weights.first - at));
}

Result<void> BucketImage::ReadFile(Bytes at, Bytes bytes, char* to) {
  for (Bytes done = 0; done < bytes;) {
    const ssize_t n =
        pread(tools_.files.fds()[state_.file], to + done, bytes - done, off_t(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return OsError(n < 0 ? errno : EIO, "reading bucket %u to save it", bucket_);
    done += Bytes(n);
  }
  return {};
}

void BucketImage::CopyHost(Bytes at, Bytes bytes, char* to) const {
  Bytes begin = 0;
  for (const HostBlock& block : tools_.in_host[bucket_]) {
    const Overlap part(at, bytes, begin, begin + block.bytes());
    if (part.size() != 0) {
      memcpy(to + (part.first - at), block.memory() + (part.first - begin), part.size());
    }
    begin += block.bytes();
  }
}

void BucketImage::ReadHost(Bytes at, Bytes bytes, char* to) {
  const store::Bucket& bucket = tools_.bucket(bucket_);
  const Overlap segments(at, bytes, 0, SegmentsEnd(bucket));
  CopyHost(segments.first, segments.size(), to + (segments.first - at));
  const Overlap ties(at, bytes, bucket.ties.offset, bucket.ties.offset + packed_ties_.size());
  if (ties.size() == 0) return;
  memcpy(to + (ties.first - at), packed_ties_.data() + (ties.first - bucket.ties.offset),
         ties.size());
}

Result<void> BucketImage::ReadWeights(Bytes at, Bytes bytes, char* to) {
  memset(to, 0, bytes);
  memset(pinned_.memory(), 0, bytes);
  Result<void> done;
  for (const store::Piece& piece : tools_.bucket(bucket_).pieces) {
    const Overlap part(at, bytes, 2 * piece.position, 2 * (piece.position + piece.numel()));
    if (part.size() == 0 || !done.ok()) continue;
    const uint64_t element = piece.param_begin - tools_.layout.entries()[piece.entry].flat_begin +
                             (part.first / 2 - piece.position);
    const Extent extent{0, part.size()};
    while (done.ok() && lane_.full()) done = lane_.WaitOldest();
    if (!done.ok()) break;
    done = lane_.Queue(weights_[piece.entry] + 2 * element, {&extent, 1},
                       pinned_.memory() + (part.first - at));
  }
  while (done.ok() && !lane_.idle()) done = lane_.WaitOldest();
  if (!done.ok()) {
    lane_.Drain();
    return done;
  }
  memcpy(to, pinned_.memory(), bytes);
  return {};
}

}  // namespace parkade::shim
