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
// The first slices are small, so that bytes move within some milliseconds; they double with every
// round of the threads up to a size at which there are few registrations.
constexpr Bytes kFirstSlice = 16_MiB;
constexpr Bytes kMostSlice = 128_MiB;
// No smaller part is tried: a stage's block lies in one.
constexpr Bytes kLeastPart = 4_MiB;
// More touch no faster: 51 GB/s with 16, and registering runs at 40 to 53 on one.
constexpr unsigned kMostThreads = 16;
// Beside an application: a quarter of the processors, and no registration, during which the driver
// may hold calls of the application, longer than a millisecond.
constexpr unsigned kBesideShare = 4;
constexpr Bytes kBesideSlice = 32_MiB;
constexpr uint64_t kLookMs = 5;  // at a flag that raises no wake-up

}  // namespace

Bytes HostPool::Growth::left() const {
  Bytes sum = 0;
  for (const Part& part : parts) sum += part.left;
  return sum;
}

HostPool::Part* HostPool::Growth::Next() {
  for (size_t i = 0; i < parts.size(); ++i) {
    Part& part = parts[turn++ % parts.size()];
    if (part.left != 0) return &part;
  }
  return nullptr;
}

int HostPool::AskNode(CUcontext context) const {
  InShim ours;
  ScopedContext current(driver_, context);
  CUdevice device = 0;
  if (current.status() != CUDA_SUCCESS) return kAnyNode;
  if (driver_.ctx_get_device(&device) != CUDA_SUCCESS) return kAnyNode;
  return node_of_(driver_, device);
}

int HostPool::KnownNode(CUcontext context) const {
  for (const auto& [known, node] : nodes_) {
    if (known == context) return node;
  }
  return kAnyNode;
}

std::vector<HostPool::Part> HostPool::Missing(const std::vector<Need>& needs) const {
  std::vector<Part> parts;
  Bytes wanted = 0;
  for (const Need& need : needs) {
    wanted += need.bytes;
    const int node = KnownNode(need.context);
    auto part = std::find_if(parts.begin(), parts.end(), [&](auto& p) { return p.node == node; });
    if (part == parts.end()) part = parts.insert(part, {need.context, node, 0, nullptr});
    part->left += need.bytes;
  }
  // Never more than is missing in all, though what there is may lie on other nodes.
  const Bytes have = FreeBytes() + growth_.in_making;
  Bytes missing = wanted > have ? RoundUp(wanted - have, kStep) : 0;
  for (Part& part : parts) {
    Bytes near = 0;
    for (const Slice& slice : slices_) near += slice.node == part.node ? slice.free_bytes : 0;
    part.left = std::min(part.left > near ? RoundUp(part.left - near, kStep) : 0, missing);
    missing -= part.left;
  }
  return parts;
}

void HostPool::BeginGrowth(const std::vector<Need>& needs) { Begin(needs, Pace::kAll); }

void HostPool::Warm(const std::vector<Need>& needs, const std::atomic<bool>& stop) {
  Begin(needs, Pace::kBeside);
  MutexLock lock(mu_);
  while (growth_.threads != 0 && !stop.load(std::memory_order_acquire)) {
    changed_.WaitUntil(mu_, Deadline::InMs(kLookMs));
  }
  StopGrowth();
}

void HostPool::Begin(const std::vector<Need>& needs, Pace pace) {
  std::vector<std::pair<CUcontext, int>> nodes;
  for (const Need& need : needs) nodes.emplace_back(need.context, AskNode(need.context));
  if (!needs.empty()) PinAgain(needs.front().context);
  uint32_t to_start;
  {
    MutexLock lock(mu_);
    for (const auto& known : nodes) {
      std::erase_if(nodes_, [&](const auto& old) { return old.first == known.first; });
      nodes_.push_back(known);
    }
    DropParts();
    growth_.parts = Missing(needs);
    growth_.error.reset();
    growth_.ended = false;
    const Bytes left = growth_.left();
    const bool all = pace == Pace::kAll;
    const uint32_t most = std::clamp(UsableCores() / (all ? 1 : kBesideShare), 1u, kMostThreads);
    growth_.most_slice = all ? kMostSlice : kBesideSlice;
    growth_.slice_bytes = std::clamp(RoundUp(left / most, kStep), kLeastSlice, kFirstSlice);
    growth_.slices = 0;
    const Bytes slices = (left + growth_.slice_bytes - 1) / growth_.slice_bytes;
    const uint32_t wanted = uint32_t(std::min<Bytes>(most, slices));
    growth_.round = std::max(wanted, 1u);
    to_start = wanted > growth_.threads ? wanted - growth_.threads : 0;
    growth_.threads += to_start;
    // One mapping for all of it, or else the threads spend their time waiting for each other's
    // mmap.
    for (Part& part : growth_.parts) {
      if (part.left == 0) continue;
      if (auto memory = Map(part.left, part.node, &misplaced_); memory.ok()) part.memory = *memory;
    }
  }
  for (; to_start != 0; --to_start) {
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

void HostPool::StopGrowth() {
  DropParts();
  growth_.ended = true;
}

void HostPool::EndGrowth() {
  {
    MutexLock lock(mu_);
    StopGrowth();
  }
  threads_.clear();
  MutexLock lock(mu_);
  growth_ = {};  // its error as well: a later Take tries for itself
}

// What no thread has taken yet.
void HostPool::DropParts() {
  for (const Part& part : growth_.parts) {
    if (part.memory != nullptr && part.left != 0) UnmapPages(part.memory, part.left);
  }
  growth_.parts.clear();
}

void HostPool::Grow(void* self) { static_cast<HostPool*>(self)->GrowUntilDone(); }

void HostPool::GrowUntilDone() {
  InShim ours;
  ScopedRelaxedCapture relaxed(driver_);
  for (;;) {
    Part taken;
    {
      MutexLock lock(mu_);
      Part* const part = growth_.error || growth_.ended ? nullptr : growth_.Next();
      if (part == nullptr) {
        --growth_.threads;
        changed_.NotifyAll();
        return;
      }
      taken = *part;
      taken.left = std::min(part->left, growth_.slice_bytes);
      part->left -= taken.left;
      if (part->memory != nullptr) part->memory += taken.left;
      growth_.in_making += taken.left;
      if (++growth_.slices % growth_.round == 0) {
        growth_.slice_bytes = std::min(2 * growth_.slice_bytes, growth_.most_slice);
      }
    }
    ScopedContext current(driver_, taken.context);
    auto made = MakeSlices(taken);
    MutexLock lock(mu_);
    growth_.in_making -= taken.left;
    if (made.ok()) {
      for (Slice& slice : *made) slices_.push_back(std::move(slice));
    } else if (taken.left > kStep) {
      growth_.parts.push_back(taken);
      growth_.most_slice = std::min(growth_.most_slice, RoundUp(taken.left / 4, kStep));
      growth_.slice_bytes = std::min(growth_.slice_bytes, growth_.most_slice);
    } else {
      growth_.error = made.error();
    }
    changed_.NotifyAll();
  }
}

Result<char*> HostPool::Map(Bytes bytes, int node, std::optional<Error>* misplaced) const {
  auto memory = map_(bytes);
  if (!memory.ok() || node == kAnyNode) return memory;
  const Result<void> preferred = PreferNode(*memory, bytes, node);
  if (!preferred.ok() && !*misplaced) *misplaced = preferred.error();
  return memory;
}

Result<std::vector<HostPool::Slice>> HostPool::MakeSlices(const Part& part) {
  char* memory = part.memory;
  std::optional<Error> misplaced;
  if (memory == nullptr) {
    auto mapped = Map(part.left, part.node, &misplaced);
    if (!mapped.ok()) return mapped.error();
    memory = *mapped;
  }
  TouchPages(memory, part.left);
  std::vector<Slice> made = Pin(part, memory);
  MutexLock lock(mu_);
  if (!misplaced_) misplaced_ = misplaced;
  return made;
}

// Registers it whole, else in ever smaller parts; from the first step that is refused on all else
// stays pageable, since each try costs the driver time.
std::vector<HostPool::Slice> HostPool::Pin(const Part& part, char* memory) {
  std::vector<Slice> made;
  const Bytes bytes = part.left;
  Bytes step = bytes;
  for (Bytes at = 0; at < bytes;) {
    bool pins;
    {
      MutexLock lock(mu_);
      pins = pins_;
    }
    const Bytes size = pins ? std::min(step, bytes - at) : bytes - at;
    const CUresult result = pins ? Register(memory + at, size) : CUDA_ERROR_OUT_OF_MEMORY;
    if (pins && result != CUDA_SUCCESS && size > kLeastPart) {
      step = std::max(RoundUp(size / 4, kStep), kLeastPart);
      continue;
    }
    if (pins && result != CUDA_SUCCESS) {
      Refused(result, bytes);
      continue;
    }
    made.push_back({memory + at, size, part.context, part.node, pins, {{0, size}}, size});
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
      while (i < slices_.size() && (slices_[i].pinned || slices_[i].stays_pageable)) ++i;
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
