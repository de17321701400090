// Loads the kernel and queues chunks for it.
#include "shim/pause/gpu_hash.h"

#include <cstdio>
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
  result = driver_.module_get_function(&function_, module_, kHashBlocks);
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "finding the hash kernel");
  result = driver_.stream_create(&stream_, CU_STREAM_NON_BLOCKING);
  if (result != CUDA_SUCCESS) {
    stream_ = nullptr;
    return CudaError(driver_, result, "making a stream");
  }
  void* memory = nullptr;
  result = driver_.mem_host_alloc(&memory, kDepth * sizeof(Slot), CU_MEMHOSTALLOC_DEVICEMAP);
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "pinning memory for digests");
  slots_ = static_cast<Slot*>(memory);
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
  if (slots_ != nullptr) driver_.mem_free_host(slots_);
  driver_.module_unload(module_);
}

Result<void> GpuHash::Queue(CUdeviceptr base, std::span<const Extent> extents, CUevent after) {
  if (in_flight_ == 0) oldest_ = 0;  // so that no more events are made than are under way at once
  const size_t at = (oldest_ + in_flight_) % kDepth;
  Slot& slot = slots_[at];
  unsigned leaves = 0, count = 0;
  for (const Extent& extent : extents) {
    slot.parts[count++] = {base + extent.offset, leaves, uint32_t(extent.bytes / kHashLeaf)};
    leaves += unsigned(extent.bytes / kHashLeaf);
  }
  unsigned long long bytes = leaves * kHashLeaf;
  blocks_[at] = HashBlocksIn(bytes);
  // Host memory has the same address on the GPU: pinned by the driver, under unified addressing.
  HashPart* parts = slot.parts;
  Digest* digests = slot.digests;
  void* arguments[] = {&parts, &count, &bytes, &digests};
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
    result = driver_.launch_kernel(function_, unsigned(blocks_[at]), 1, 1, PARKADE_HASH_THREADS, 1,
                                   1, 0, stream_, arguments, nullptr);
  }
  if (result == CUDA_SUCCESS) result = driver_.event_record(event, stream_);
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "hashing on the GPU");
  ++in_flight_;
  return {};
}

bool GpuHash::OldestIsDone() const {
  return driver_.event_query(events_[oldest_]) != CUDA_ERROR_NOT_READY;
}

Result<std::span<const Digest>> GpuHash::WaitOldest() {
  const CUresult result = driver_.event_synchronize(events_[oldest_]);
  if (result != CUDA_SUCCESS) return CudaError(driver_, result, "waiting for the hash kernel");
  const std::span<const Digest> digests(slots_[oldest_].digests, blocks_[oldest_]);
  oldest_ = (oldest_ + 1) % kDepth;
  --in_flight_;
  return digests;
}

void GpuHash::Drain() {
  driver_.stream_synchronize(stream_);
  in_flight_ = 0;
}

std::unique_ptr<GpuHash> OpenGpuHash(MoveTools& tools) {
  CUcontext context = nullptr;
  tools.driver.ctx_get_current(&context);
  if (auto kept = tools.shelves.hashes.Take(context)) return kept;
  auto hash = GpuHash::Open(tools.driver);
  if (hash.ok()) return std::move(*hash);
  char line[320];
  snprintf(line, sizeof line, "the GPU does not hash, which costs CPU time: %s", hash.error().what);
  tools.ledger.AddWarning(line);
  return nullptr;
}

}  // namespace parkade::shim
