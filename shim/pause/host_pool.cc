// Keeps account of the pool's blocks; growth and pinning stand in host_pool_growth.cc.
#include "shim/pause/host_pool.h"

#include <algorithm>
#include <utility>

#include "shim/cuda/in_shim.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {
namespace {

constexpr Bytes kStep = 2_MiB;

}  // namespace

HostBlock::HostBlock(HostBlock&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      memory_(other.memory_),
      bytes_(other.bytes_),
      pinned_(other.pinned_) {}

HostBlock& HostBlock::operator=(HostBlock&& other) noexcept {
  if (this == &other) return *this;
  if (pool_ != nullptr) pool_->GiveBack(memory_, bytes_);
  pool_ = std::exchange(other.pool_, nullptr);
  memory_ = other.memory_;
  bytes_ = other.bytes_;
  pinned_ = other.pinned_;
  return *this;
}

HostBlock::~HostBlock() {
  if (pool_ != nullptr) pool_->GiveBack(memory_, bytes_);
}

HostBlock HostBlock::Split(Bytes bytes) {
  HostBlock first(pool_, memory_, bytes, pinned_);
  memory_ += bytes;
  bytes_ -= bytes;
  if (bytes_ == 0) pool_ = nullptr;
  return first;
}

void HostBlock::Join(HostBlock&& next) {
  bytes_ += next.bytes_;
  next.Abandon();
}

HostPool::HostPool(const Driver& driver, MapMemory map, NodeOf node_of)
    : driver_(driver), map_(map), node_of_(node_of) {}

HostPool::~HostPool() {
  EndGrowth();
  Release();
}

void HostPool::Unmake(const Slice& slice) const {
  if (slice.pinned) {
    InShim ours;
    ScopedRelaxedCapture relaxed(driver_);
    ScopedContext current(driver_, slice.context);
    // Refused when the context is gone; its registrations went with it.
    driver_.mem_host_unregister(slice.memory);
  }
  UnmapPages(slice.memory, slice.bytes);
}

Result<HostBlock> HostPool::Take(Bytes want, Bytes least, For purpose, Deadline by) {
  CUcontext context = nullptr;
  driver_.ctx_get_current(&context);
  MutexLock lock(mu_);
  const int node = KnownNode(context);
  for (;;) {
    // While memory is being made, that of other nodes is for whoever it is made for.
    const bool grows = growth_.threads != 0;
    auto block = Cut(want, least, purpose, node, grows ? Reach::kNear : Reach::kFar);
    if (block) return std::move(*block);
    if (!grows) break;
    if (by.Passed()) {
      return MakeError(Code::kDeadlineExceeded, "HOST_MEMORY", "waiting for %llu KiB to be pinned",
                       (unsigned long long)least >> 10);
    }
    changed_.WaitUntil(mu_, by);
  }
  if (growth_.error) return *growth_.error;
  // Free memory lies scattered, or no thread could be had to grow.
  if (purpose == For::kMoreStage && FreeBytes() >= least) {
    return MakeError(Code::kResourceExhausted, "HOST_MEMORY",
                     "no %llu KiB of host memory in one piece", (unsigned long long)least >> 10);
  }
  mu_.Unlock();
  auto made = MakeSlices({context, node, RoundUp(std::max(want, least), kStep), nullptr});
  mu_.Lock();
  if (!made.ok()) return made.error();
  // Before anybody else sees them: the thread of another GPU would take what was made here.
  std::optional<HostBlock> block;
  for (Slice& slice : *made) {
    if (!block) block = CutFrom(slice, want, least);
    slices_.push_back(std::move(slice));
  }
  if (block) return std::move(*block);
  return MakeError(Code::kResourceExhausted, "HOST_MEMORY",
                   "no %llu KiB of host memory in one piece", (unsigned long long)least >> 10);
}

std::optional<HostBlock> HostPool::Cut(Bytes want, Bytes least, For purpose, int node,
                                       Reach reach) {
  const Bytes pinned_free = PinnedFreeBytes();
  const Bytes reserved = purpose == For::kBackup ? std::min(for_stages_, pinned_free) : 0;
  for (const bool pinned : {true, false}) {
    const Bytes most = pinned ? std::min(want, pinned_free - reserved) : want;
    if (most < least) continue;
    for (const Reach at : {Reach::kNear, Reach::kFar}) {
      if (at == Reach::kFar && reach == Reach::kNear) continue;
      for (Slice& slice : slices_) {
        const bool near = node == kAnyNode || slice.node == kAnyNode || slice.node == node;
        if (slice.pinned != pinned || near != (at == Reach::kNear)) continue;
        if (auto block = CutFrom(slice, most, least)) return block;
      }
    }
  }
  return std::nullopt;
}

std::optional<HostBlock> HostPool::CutFrom(Slice& slice, Bytes want, Bytes least) {
  if (slice.free_bytes < least) return std::nullopt;
  for (auto run = slice.free.begin(); run != slice.free.end(); ++run) {
    if (run->bytes < least) continue;
    const Bytes bytes = std::min(run->bytes, want);
    HostBlock block(this, slice.memory + run->offset, bytes, slice.pinned);
    run->offset += bytes;
    run->bytes -= bytes;
    if (run->bytes == 0) slice.free.erase(run);
    slice.free_bytes -= bytes;
    return block;
  }
  return std::nullopt;
}

void HostPool::GiveBack(char* memory, Bytes bytes) {
  MutexLock lock(mu_);
  const auto slice = std::find_if(slices_.begin(), slices_.end(), [memory](const Slice& s) {
    return memory >= s.memory && memory < s.memory + s.bytes;
  });
  const Bytes offset = Bytes(memory - slice->memory);
  slice->free_bytes += bytes;
  auto next = std::find_if(slice->free.begin(), slice->free.end(),
                           [offset](const Run& run) { return run.offset > offset; });
  next = slice->free.insert(next, {offset, bytes});
  if (const auto after = next + 1; after != slice->free.end() && offset + bytes == after->offset) {
    next->bytes += after->bytes;
    slice->free.erase(after);
  }
  if (next == slice->free.begin()) return;
  const auto before = next - 1;
  if (before->offset + before->bytes != offset) return;
  before->bytes += next->bytes;
  slice->free.erase(next);
}

void HostPool::Release() {
  std::vector<Slice> empty;
  {
    MutexLock lock(mu_);
    std::erase_if(slices_, [&empty](Slice& slice) {
      if (slice.free_bytes != slice.bytes) return false;
      empty.push_back(std::move(slice));
      return true;
    });
  }
  for (const Slice& slice : empty) Unmake(slice);
}

Bytes HostPool::FreeBytes() const {
  Bytes sum = 0;
  for (const Slice& slice : slices_) sum += slice.free_bytes;
  return sum;
}

Bytes HostPool::PinnedFreeBytes() const {
  Bytes sum = 0;
  for (const Slice& slice : slices_) sum += slice.pinned ? slice.free_bytes : 0;
  return sum;
}

Bytes HostPool::held() const {
  MutexLock lock(mu_);
  Bytes sum = 0;
  for (const Slice& slice : slices_) sum += slice.bytes;
  return sum;
}

Bytes HostPool::pinned() const {
  MutexLock lock(mu_);
  Bytes sum = 0;
  for (const Slice& slice : slices_) sum += slice.pinned ? slice.bytes : 0;
  return sum;
}

std::optional<Error> HostPool::refusal() const {
  MutexLock lock(mu_);
  return refusal_;
}

std::optional<Error> HostPool::misplaced() const {
  MutexLock lock(mu_);
  return misplaced_;
}

Bytes HostPool::used() const {
  MutexLock lock(mu_);
  Bytes sum = 0;
  for (const Slice& slice : slices_) sum += slice.bytes - slice.free_bytes;
  return sum;
}

}  // namespace parkade::shim
