// Grows the pool on several threads and keeps account of its blocks.
#include "shim/pause/host_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/in_shim.h"
#include "shim/cuda/scoped_context.h"
#include "shim/pause/host_slice.h"

namespace parkade::shim {
namespace {

constexpr Bytes kStep = 2_MiB;
// Large enough to cost few registrations, small enough that the first one is ready within 40 ms.
constexpr Bytes kMostSlice = 128_MiB;
constexpr Bytes kLeastShare = 8_MiB;
// More touch no faster: 51 GB/s with 16, and registering runs at 40 to 53 on one.
constexpr unsigned kMostThreads = 16;

bool MemlockIsLimited() {
  rlimit limit;
  return getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

HostBlock::HostBlock(HostBlock&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), memory_(other.memory_), bytes_(other.bytes_) {}

HostBlock& HostBlock::operator=(HostBlock&& other) noexcept {
  if (this == &other) return *this;
  if (pool_ != nullptr) pool_->GiveBack(memory_, bytes_);
  pool_ = std::exchange(other.pool_, nullptr);
  memory_ = other.memory_;
  bytes_ = other.bytes_;
  return *this;
}

HostBlock::~HostBlock() {
  if (pool_ != nullptr) pool_->GiveBack(memory_, bytes_);
}

HostPool::HostPool(const Driver& driver) : driver_(driver) {}

HostPool::~HostPool() {
  EndGrowth();
  Release();
}

void HostPool::BeginGrowth(Bytes free_bytes, CUcontext context) {
  EndGrowth();
  unsigned threads;
  {
    MutexLock lock(mu_);
    growth_ = {};
    const Bytes have = FreeBytes();
    if (have >= free_bytes) return;
    growth_.left = RoundUp(free_bytes - have, kStep);
    growth_.context = context;
    threads = std::clamp(UsableCores(), 1u, kMostThreads);
    growth_.slice_bytes =
        std::clamp(RoundUp(growth_.left / threads, kStep), kLeastShare, kMostSlice);
    const Bytes slices = (growth_.left + growth_.slice_bytes - 1) / growth_.slice_bytes;
    threads = unsigned(std::min<Bytes>(threads, slices));
    growth_.threads = threads;
    // One mapping for all of it, or else the threads spend their time waiting for each other's
    // mmap.
    if (auto memory = MapPages(growth_.left); memory.ok()) growth_.memory = *memory;
  }
  for (unsigned i = 0; i < threads; ++i) {
    auto thread = Thread::Start("parkade-pool", Grow, this);
    if (thread.ok()) {
      threads_.push_back(std::move(*thread));
      continue;
    }
    // Fewer do as well; with none, each Take makes its slice.
    MutexLock lock(mu_);
    --growth_.threads;
    changed_.NotifyAll();
  }
}

void HostPool::EndGrowth() {
  {
    MutexLock lock(mu_);
    UnmapRest();
    growth_.left = 0;
  }
  threads_.clear();
}

// What no thread has taken yet.
void HostPool::UnmapRest() {
  if (growth_.memory != nullptr && growth_.left != 0) UnmapPages(growth_.memory, growth_.left);
  growth_.memory = nullptr;
}

void HostPool::Grow(void* self) { static_cast<HostPool*>(self)->GrowUntilDone(); }

void HostPool::GrowUntilDone() {
  CUcontext context;
  {
    MutexLock lock(mu_);
    context = growth_.context;
  }
  InShim ours;
  ScopedRelaxedCapture relaxed(driver_);
  ScopedContext current(driver_, context);
  for (;;) {
    Bytes bytes;
    char* memory;
    {
      MutexLock lock(mu_);
      if (growth_.left == 0 || growth_.error) {
        --growth_.threads;
        changed_.NotifyAll();
        return;
      }
      bytes = std::min(growth_.left, growth_.slice_bytes);
      growth_.left -= bytes;
      memory = growth_.memory;
      if (memory != nullptr) growth_.memory += bytes;
    }
    auto slice = MakeSlice(memory, bytes, context);
    MutexLock lock(mu_);
    if (slice.ok()) {
      slices_.push_back(std::move(*slice));
    } else if (bytes > kStep) {
      UnmapRest();  // smaller slices do not fit the mapping's parts any more
      growth_.left += bytes;
      growth_.slice_bytes = std::min(growth_.slice_bytes, RoundUp(bytes / 4, kStep));
    } else {
      growth_.error = slice.error();
    }
    changed_.NotifyAll();
  }
}

Result<HostPool::Slice> HostPool::MakeSlice(char* memory, Bytes bytes, CUcontext context) const {
  if (memory == nullptr) {
    auto mapped = MapPages(bytes);
    if (!mapped.ok()) return mapped.error();
    memory = *mapped;
  }
  TouchPages(memory, bytes);
  const CUresult result = driver_.mem_host_register(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE);
  if (result == CUDA_SUCCESS) return Slice{memory, bytes, context, {{0, bytes}}, bytes};
  UnmapPages(memory, bytes);
  Error e = CudaError(driver_, result, "pinning %llu MiB of host memory",
                      (unsigned long long)bytes >> 20);
  e.code = Code::kResourceExhausted;
  e.reason = MemlockIsLimited() ? "MEMLOCK" : "HOST_MEMORY";
  return e;
}

void HostPool::Unmake(const Slice& slice) const {
  InShim ours;
  ScopedRelaxedCapture relaxed(driver_);
  ScopedContext current(driver_, slice.context);
  // Refused when the context is gone; its registrations went with it.
  driver_.mem_host_unregister(slice.memory);
  UnmapPages(slice.memory, slice.bytes);
}

Result<HostBlock> HostPool::Take(Bytes want, Bytes least, Deadline by) {
  MutexLock lock(mu_);
  for (;;) {
    if (auto block = Cut(want, least)) return std::move(*block);
    if (growth_.threads == 0) break;
    if (by.Passed()) {
      return MakeError(Code::kDeadlineExceeded, "HOST_MEMORY", "waiting for %llu KiB to be pinned",
                       (unsigned long long)least >> 10);
    }
    changed_.WaitUntil(mu_, by);
  }
  if (growth_.error) return *growth_.error;
  // Free memory lies scattered, or no thread could be had to grow.
  mu_.Unlock();
  CUcontext context = nullptr;
  driver_.ctx_get_current(&context);
  auto slice = MakeSlice(nullptr, RoundUp(std::max(want, least), kStep), context);
  mu_.Lock();
  if (!slice.ok()) return slice.error();
  slices_.push_back(std::move(*slice));
  return std::move(*Cut(want, least));
}

std::optional<HostBlock> HostPool::Cut(Bytes want, Bytes least) {
  for (Slice& slice : slices_) {
    if (slice.free_bytes < least) continue;
    for (auto run = slice.free.begin(); run != slice.free.end(); ++run) {
      if (run->bytes < least) continue;
      const Bytes bytes = std::min(run->bytes, want);
      HostBlock block(this, slice.memory + run->offset, bytes);
      run->offset += bytes;
      run->bytes -= bytes;
      if (run->bytes == 0) slice.free.erase(run);
      slice.free_bytes -= bytes;
      return block;
    }
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

Bytes HostPool::held() const {
  MutexLock lock(mu_);
  Bytes sum = 0;
  for (const Slice& slice : slices_) sum += slice.bytes;
  return sum;
}

Bytes HostPool::used() const {
  MutexLock lock(mu_);
  Bytes sum = 0;
  for (const Slice& slice : slices_) sum += slice.bytes - slice.free_bytes;
  return sum;
}

}  // namespace parkade::shim
