// Loads the kernels and queues blocks for them.
#include "shim/pause/gpu_hash.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/scoped_context.h"
#include "shim/kernels/images.h"
#include "shim/pause/move_tools.h"

namespace parkade::shim {

Result<std::unique_ptr<GpuHash>> GpuHash::Open(const Driver& driver) {
  std::unique_ptr<GpuHash> hash(new GpuHash(driver));
  if (auto r = hash->Load(); !r.ok()) return r.error();
  return hash;
}

Result<void> GpuHash::Load() {
  if (HashFatbin() == nullptr) {
    return MakeError(Code::kUnimplemented, "NO_KERNELS", "this library was built without kernels");
  }
  CUresult result = driver_.ctx_get_current(&context_);
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "asking for the context");
  result = driver_.module_load_data(&module_, HashFatbin());
  if (result != CUDA_SUCCESS) result = driver_.module_load_data(&module_, HashPtx());
  if (result != CUDA_SUCCESS) {
    module_ = nullptr;
    return CudaError(driver_, result, "loading the hash kernel");
  }
  result = driver_.module_get_function(&hash_, module_, kHashBlocks);
  if (result == CUDA_SUCCESS) {
    result = driver_.module_get_function(&compare_, module_, kCompareBlocks);
  }
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "finding the hash kernel");
  result = driver_.stream_create(&stream_, CU_STREAM_NON_BLOCKING);
  if (result != CUDA_SUCCESS) {
    stream_ = nullptr;
    return CudaError(driver_, result, "making a stream");
  }
  void* memory = nullptr;
  result = driver_.mem_host_alloc(&memory, sizeof(Pinned), CU_MEMHOSTALLOC_DEVICEMAP);
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "pinning memory for digests");
  pinned_ = static_cast<Pinned*>(memory);
  return {};
}

GpuHash::~GpuHash() {
  if (module_ == nullptr) return;
  const ScopedContext current(driver_, context_);
  if (stream_ != nullptr) {
    Drain();
    driver_.stream_destroy(stream_);
  }
  for (CUevent event : events_) {
    if (event != nullptr) driver_.event_destroy(event);
  }
  if (pinned_ != nullptr) driver_.mem_free_host(pinned_);
  driver_.module_unload(module_);
}

Result<void> GpuHash::Queue(std::span<const Block> blocks, CUevent after) {
  if (in_flight_ == 0) oldest_ = 0;  // so that no more events are made than are under way at once
  const size_t at = (oldest_ + in_flight_) % kDepth;
  Slot& slot = pinned_->slots[at];
  uint32_t count = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    slot.blocks[i] = {count, uint32_t(blocks[i].extents.size())};
    uint32_t leaves = 0;
    for (const Extent& extent : blocks[i].extents) {
      const auto here = uint32_t(extent.bytes / kHashLeaf);
      slot.parts[count++] = {blocks[i].base + extent.offset, leaves, here};
      leaves += here;
    }
  }
  blocks_[at] = blocks.size();
  // Host memory has the same address on the GPU: pinned by the driver, under unified addressing.
  HashPart* parts = slot.parts;
  HashBlockParts* of_blocks = slot.blocks;
  HashedBlock* results = slot.results;
  void* arguments[] = {&parts, &of_blocks, &results};
  CUresult result = CUDA_SUCCESS;
  CUevent& event = events_[at];
  if (event == nullptr) {
    result = driver_.event_create(&event, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) event = nullptr;
  }
  if (result == CUDA_SUCCESS && after != nullptr) {
    result = driver_.stream_wait_event(stream_, after, 0);
  }
  if (result == CUDA_SUCCESS) {
    result = driver_.launch_kernel(hash_, unsigned(blocks.size()), 1, 1, PARKADE_HASH_THREADS, 1, 1,
                                   0, stream_, arguments, nullptr);
  }
  if (result == CUDA_SUCCESS) result = driver_.event_record(event, stream_);
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "hashing on the GPU");
  ++in_flight_;
  return {};
}

bool GpuHash::OldestIsDone() const {
  return driver_.event_query(events_[oldest_]) != CUDA_ERROR_NOT_READY;
}

Result<std::span<const HashedBlock>> GpuHash::WaitOldest() {
  const CUresult result = driver_.event_synchronize(events_[oldest_]);
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "waiting for the hash kernel");
  const std::span<const HashedBlock> results(pinned_->slots[oldest_].results, blocks_[oldest_]);
  oldest_ = (oldest_ + 1) % kDepth;
  --in_flight_;
  return results;
}

void GpuHash::Drain() {
  driver_.stream_synchronize(stream_);
  in_flight_ = 0;
}

Result<std::vector<bool>> GpuHash::Compare(std::span<const Twin> twins) {
  std::vector<bool> equal;
  for (size_t begin = 0; begin < twins.size();) {
    size_t end = begin, parts = 0;
    while (end < twins.size() && end - begin < kMostBlocks) {
      parts += twins[end].block.extents.size();
      if (parts > kMostParts) break;
      ++end;
    }
    if (auto r = CompareSome(twins.subspan(begin, end - begin), equal); !r.ok()) return r.error();
    begin = end;
  }
  return equal;
}

// What one slot holds. The one stream brings it behind the hashes that are in flight.
Result<void> GpuHash::CompareSome(std::span<const Twin> twins, std::vector<bool>& equal) {
  CompareSlot& slot = pinned_->compare;
  memset(slot.differs, 0, sizeof slot.differs);
  unsigned count = 0;
  for (size_t i = 0; i < twins.size(); ++i) {
    const Twin& twin = twins[i];
    uint64_t other = reinterpret_cast<uint64_t>(twin.bytes);
    for (const Extent& extent : twin.block.extents) {
      ComparePart& part = slot.parts[count++];
      part = {twin.block.base + extent.offset, other, {}, uint32_t(extent.bytes / 16), uint32_t(i)};
      if (other == 0) std::copy_n(twin.pattern, 2, part.pattern);
      if (other != 0) other += extent.bytes;
    }
  }
  ComparePart* parts = slot.parts;
  uint32_t* differs = slot.differs;
  void* arguments[] = {&parts, &differs};
  CUresult result = driver_.launch_kernel(compare_, count, 1, 1, PARKADE_HASH_THREADS, 1, 1, 0,
                                          stream_, arguments, nullptr);
  if (result == CUDA_SUCCESS) result = driver_.stream_synchronize(stream_);
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "comparing on the GPU");
  for (size_t i = 0; i < twins.size(); ++i) equal.push_back(slot.differs[i] == 0);
  return {};
}

std::unique_ptr<GpuHash> OpenGpuHash(MoveTools& tools) {
  CUcontext context = nullptr;
  tools.driver.ctx_get_current(&context);
  if (auto kept = tools.shelves.hashes.Take(context)) return kept;
  auto hash = GpuHash::Open(tools.driver);
  if (hash.ok()) return std::move(*hash);
  char line[320];
  snprintf(line, sizeof line,
           "the GPU does not hash, which costs CPU time, and bytes that have not changed are moved "
           "like the others: %s",
           hash.error().what);
  tools.ledger.AddWarning(line);
  return nullptr;
}

}  // namespace parkade::shim
