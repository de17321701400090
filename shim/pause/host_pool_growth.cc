// HostPool's growth: memory is mapped, touched and pinned on several threads.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/in_shim.h"
#include "shim/cuda/scoped_context.h"
#include "shim/pause/host_pool.h"
#include "shim/pause/stage_blocks.h"

namespace parkade::shim {
namespace {

constexpr Bytes kStep = 2_MiB;
// Large enough to cost few registrations, small enough that the first one is ready within 40 ms.
constexpr Bytes kMostSlice = 128_MiB;
constexpr Bytes kLeastShare = 8_MiB;
// No smaller part is tried: a stage's block lies in one.
constexpr Bytes kLeastPart = 4_MiB;
// More touch no faster: 51 GB/s with 16, and registering runs at 40 to 53 on one.
constexpr unsigned kMostThreads = 16;

}  // namespace

void HostPool::BeginGrowth(Bytes free_bytes, CUcontext context) {
  EndGrowth();
  PinAgain(context);
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
    if (auto memory = map_(growth_.left); memory.ok()) growth_.memory = *memory;
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
    growth_.ended = true;
  }
  threads_.clear();
  MutexLock lock(mu_);
  growth_.error.reset();  // of this growth; a later Take tries for itself
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
      if (growth_.left == 0 || growth_.error || growth_.ended) {
        --growth_.threads;
        changed_.NotifyAll();
        return;
      }
      bytes = std::min(growth_.left, growth_.slice_bytes);
      growth_.left -= bytes;
      memory = growth_.memory;
      if (memory != nullptr) growth_.memory += bytes;
    }
    const Result<void> added = AddSlices(memory, bytes, context);
    MutexLock lock(mu_);
    if (!added.ok() && bytes > kStep) {
      growth_.left += bytes;
      growth_.slice_bytes = std::min(growth_.slice_bytes, RoundUp(bytes / 4, kStep));
    } else if (!added.ok()) {
      growth_.error = added.error();
    }
    changed_.NotifyAll();
  }
}

Result<void> HostPool::AddSlices(char* memory, Bytes bytes, CUcontext context) {
  if (memory == nullptr) {
    auto mapped = map_(bytes);
    if (!mapped.ok()) return mapped.error();
    memory = *mapped;
  }
  TouchPages(memory, bytes);
  std::vector<Slice> made = Pin(memory, bytes, context);
  MutexLock lock(mu_);
  for (Slice& slice : made) slices_.push_back(std::move(slice));
  return {};
}

// Registers it whole, else in ever smaller parts; from the first step that is refused on all else
// stays pageable, since each try costs the driver time.
std::vector<HostPool::Slice> HostPool::Pin(char* memory, Bytes bytes, CUcontext context) {
  std::vector<Slice> made;
  Bytes part = bytes;
  for (Bytes at = 0; at < bytes;) {
    bool pins;
    {
      MutexLock lock(mu_);
      pins = pins_;
    }
    const Bytes size = pins ? std::min(part, bytes - at) : bytes - at;
    const CUresult result = pins ? Register(memory + at, size) : CUDA_ERROR_OUT_OF_MEMORY;
    if (pins && result != CUDA_SUCCESS && size > kLeastPart) {
      part = std::max(RoundUp(size / 4, kStep), kLeastPart);
      continue;
    }
    if (pins && result != CUDA_SUCCESS) {
      Refused(result, bytes);
      continue;
    }
    made.push_back({memory + at, size, context, pins, {{0, size}}, size});
    at += size;
  }
  return made;
}

CUresult HostPool::Register(char* memory, Bytes bytes) const {
  return driver_.mem_host_register(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE);
}

void HostPool::Refused(CUresult result, Bytes bytes) {
  Error e = CudaError(driver_, result, "pinning %llu MiB of host memory",
                      (unsigned long long)bytes >> 20);
  e.code = Code::kResourceExhausted;
  e.reason = "HOST_MEMORY";
  rlimit limit;
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    e.reason = "MEMLOCK";
    const size_t end = strlen(e.what);
    snprintf(e.what + end, sizeof e.what - end, " (RLIMIT_MEMLOCK is %llu KiB)",
             (unsigned long long)limit.rlim_cur >> 10);
  }
  MutexLock lock(mu_);
  pins_ = false;
  for_stages_ = std::min(PinnedFreeBytes(), kHostStage);
  if (!refusal_) refusal_ = e;
}

// What was refused may have been for want of memory that has come free since. Only the operation
// thread adds and removes slices now, so their order stands.
void HostPool::PinAgain(CUcontext context) {
  {
    MutexLock lock(mu_);
    if (pins_) return;
  }
  InShim ours;
  ScopedRelaxedCapture relaxed(driver_);
  ScopedContext current(driver_, context);
  for (size_t i = 0;; ++i) {
    char* memory;
    Bytes bytes;
    {
      MutexLock lock(mu_);
      while (i < slices_.size() && slices_[i].pinned) ++i;
      if (i == slices_.size()) break;
      memory = slices_[i].memory;
      bytes = slices_[i].bytes;
    }
    if (Register(memory, bytes) != CUDA_SUCCESS) return;
    MutexLock lock(mu_);
    slices_[i].pinned = true;
    slices_[i].context = context;
  }
  MutexLock lock(mu_);
  pins_ = true;
  for_stages_ = 0;
}

}  // namespace parkade::shim
