// Loads bucket by bucket.
#include "shim/stream/store_loader.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/store/encoding.h"
#include "common/store/ties.h"
#include "shim/pause/host_slice.h"
#include "shim/stream/lane_pass.h"

namespace parkade::shim {
namespace {

constexpr uint64_t kMemoryMs = 60'000;
constexpr Bytes kPart = 2_MiB;

void AppendTyped(StoreType type, float value, std::vector<char>& to) {
  const auto append = [&to](const auto& code) {
    const char* bytes = reinterpret_cast<const char*>(&code);
    to.insert(to.end(), bytes, bytes + sizeof code);
  };
  if (type == kTypeFp32) append(value);
  if (type == kTypeBf16) append(store::ToBf16(value));
  if (type == kTypeFp16) append(store::ToFp16(value));
}

}  // namespace

StoreLoader::~StoreLoader() {
  if (aligned_ != nullptr) UnmapPages(aligned_, kPart);
}

Result<void> StoreLoader::Open() {
  if (auto r = lane_.Open(tools_.shelf); !r.ok()) return r;
  auto taken = tools_.pool.Take(kPart, kPart, HostPool::For::kStage, Deadline::InMs(kMemoryMs));
  if (!taken.ok()) return taken.error();
  pinned_ = std::move(*taken);
  auto mapped = MapPages(kPart);
  if (!mapped.ok()) return mapped.error();
  aligned_ = *mapped;
  return {};
}

Result<std::vector<store::BucketState>> StoreLoader::Load(uint64_t step, const MakeBucket& make) {
  if (auto r = Open(); !r.ok()) return r.error();
  if (tools_.state != nullptr) {
    if (auto r = tools_.state->BeginStep(step); !r.ok()) return r.error();
  }
  std::vector<store::BucketState> states(tools_.layout.buckets().size());
  LanePass pass;
  for (uint32_t bucket = 0; bucket < states.size(); ++bucket) {
    store::BucketState& state = states[bucket];
    std::vector<uint8_t> bytes;
    if (auto r = make(bucket, bytes, state); !r.ok()) return r.error();
    state.step = step;
    state.file = bucket;
    state.main_only = false;
    pass.Enter();
    Result<void> done = Place(bucket, bytes, state);
    if (done.ok()) done = WriteWeights(bucket, bytes);
    pass.Leave();
    if (!done.ok()) return done.error();
  }
  if (tools_.state != nullptr) {
    if (auto r = tools_.state->CommitStep(); !r.ok()) return r.error();
  }
  return states;
}

Result<void> StoreLoader::Place(uint32_t bucket, const std::vector<uint8_t>& bytes,
                                store::BucketState& state) {
  if (!tools_.in_host[bucket].empty()) return CopyToHost(bucket, bytes, state.ties);
  if (tools_.state != nullptr) {
    auto file = tools_.state->BeginBucket(bucket);
    if (!file.ok()) return file.error();
    state.file = *file;
  }
  if (auto r = WriteFile(bucket, bytes, state.file); !r.ok()) return r;
  return tools_.state == nullptr ? Result<void>() : tools_.state->EndBucket(bucket, state);
}

Result<void> StoreLoader::WriteFile(uint32_t bucket, const std::vector<uint8_t>& bytes,
                                    uint32_t file) {
  const Bytes size = tools_.bucket(bucket).live_bytes;
  for (Bytes at = 0; at < size;) {
    const Bytes part = std::min<Bytes>(size - at, kPart);
    memcpy(aligned_, bytes.data() + at, part);
    const ssize_t n = pwrite(tools_.files.fds()[file], aligned_, part, off_t(at));
    if (n < 0 && errno == EINTR) continue;
    // A short write ends at a multiple of what direct I/O wants, or is an error the next time.
    if (n <= 0) return OsError(n < 0 ? errno : EIO, "writing bucket %u", bucket);
    at += Bytes(n);
    tools_.written_bytes += Bytes(n);
  }
  return {};
}

Result<void> StoreLoader::CopyToHost(uint32_t number, const std::vector<uint8_t>& bytes,
                                     uint32_t ties) {
  const store::Bucket& bucket = tools_.bucket(number);
  std::vector<uint8_t> live(bytes.begin(), bytes.begin() + ptrdiff_t(bucket.live_bytes));
  if (tools_.layout.lo16() >= 0) {
    std::vector<uint32_t> bits(bucket.numel / 32);
    const std::span<const uint8_t> packed(bytes.data() + bucket.ties.offset,
                                          store::TieMapBytes(ties, bucket.numel));
    if (auto r = store::UnpackTies(packed, ties, bits); !r.ok()) return r;
    memcpy(live.data() + bucket.ties.offset, bits.data(), store::TieBitsBytes(bucket.numel));
  }
  Bytes at = 0;
  for (const HostBlock& block : tools_.in_host[number]) {
    memcpy(block.memory(), live.data() + at, block.bytes());
    at += block.bytes();
  }
  return {};
}

void StoreLoader::Append(const store::Bucket& bucket, const store::Piece& piece,
                         const std::vector<uint8_t>& bytes, std::vector<char>& weights) {
  if (tools_.layout.lo16() >= 0) {
    const char* const from = reinterpret_cast<const char*>(bytes.data()) + bucket.weights.offset;
    weights.assign(from + 2 * piece.position, from + 2 * (piece.position + piece.numel()));
    return;
  }
  const auto main = size_t(work_.main());
  values_.resize(bucket.numel);
  store::Decode(tools_.layout.segments()[main], bytes.data() + bucket.segments[main].offset,
                bucket.numel, piece.positions(), {}, values_.data());
  const StoreType type = work_.tensors(piece.entry).weight_type;
  for (uint64_t i = 0; i < piece.numel(); ++i) {
    AppendTyped(type, values_[piece.position + i], weights);
  }
}

Result<void> StoreLoader::WriteWeights(uint32_t number, const std::vector<uint8_t>& bytes) {
  if (work_.main() < 0) return {};
  const store::Bucket& bucket = tools_.bucket(number);
  std::vector<char> weights;
  for (const store::Piece& piece : bucket.pieces) {
    const EntryTensors& tensors = work_.tensors(piece.entry);
    if (tensors.weight == 0 || piece.numel() == 0) continue;
    weights.clear();
    Append(bucket, piece, bytes, weights);
    const uint64_t element = piece.param_begin - tools_.layout.entries()[piece.entry].flat_begin;
    const Bytes size = weights.size() / piece.numel();
    if (auto r = CopyIn(tensors.weight + element * size, weights); !r.ok()) return r;
  }
  return {};
}

Result<void> StoreLoader::CopyIn(CUdeviceptr to, const std::vector<char>& bytes) {
  for (Bytes at = 0; at < bytes.size(); at += kPart) {
    const Bytes part = std::min<Bytes>(bytes.size() - at, kPart);
    memcpy(pinned_.memory(), bytes.data() + at, part);
    const Extent extent{0, part};
    Result<void> done = lane_.Queue(to + at, {&extent, 1}, pinned_.memory());
    if (done.ok()) done = lane_.WaitOldest();
    if (!done.ok()) {
      lane_.Drain();
      return done;
    }
  }
  return {};
}

}  // namespace parkade::shim
