// What pools hold, and give back.
#include "tests/sim/pool.h"

#include <algorithm>
#include <cstring>

namespace parkade::sim {

CUresult Pool::Allocate(Context& context, CUmemoryPool self, Bytes bytes, Address* base) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Driver& sim = Sim();
  if (bytes > sim.settings.gpu_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const Bytes block = RoundUp(bytes, bytes > 1_MiB ? kGranularity : 4_KiB);
  MutexLock lock(mu_);
  const auto fitting = std::find_if(kept_.begin(), kept_.end(),
                                    [block](const auto& kept) { return kept.second == block; });
  if (fitting != kept_.end()) {
    *base = fitting->first;
    kept_.erase(fitting);
  } else {
    Range range;
    range.kind = RangeKind::kNative;
    range.bytes = bytes;
    range.gpu = gpu;
    range.context = context.handle;
    range.pool = self;
    auto create = [&] {
      return Physical::Create(sim.account, gpu, block, sim.settings.gpu_bytes, &range.memory);
    };
    CUresult result = create();
    if (result == CUDA_ERROR_OUT_OF_MEMORY && !kept_.empty()) {
      TrimLocked(0);
      result = create();
    }
    if (result == CUDA_SUCCESS) result = sim.addresses.Place(std::move(range), base);
    if (result != CUDA_SUCCESS) return result;
    held_ += block;
  }
  live_[*base] = block;
  used_ += block;
  most_used_ = std::max(most_used_, used_);
  most_held_ = std::max(most_held_, held_);
  return CUDA_SUCCESS;
}

CUresult Pool::Free(Address base) {
  MutexLock lock(mu_);
  auto block = live_.extract(base);
  if (block.empty()) return CUDA_ERROR_INVALID_VALUE;
  used_ -= block.mapped();
  kept_.insert(std::move(block));
  TrimLocked(threshold_);
  return CUDA_SUCCESS;
}

void Pool::Trim(Bytes keep) {
  MutexLock lock(mu_);
  TrimLocked(keep);
}

void Pool::TrimLocked(Bytes keep) {
  while (held_ > keep && !kept_.empty()) {
    const auto block = kept_.begin();
    Sim().addresses.Remove(block->first, RangeKind::kNative);
    held_ -= block->second;
    kept_.erase(block);
  }
}

CUresult Pool::SetAttribute(CUmemPool_attribute attribute, const void* value) {
  uint64_t number = 0;
  MutexLock lock(mu_);
  switch (int(attribute)) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      memcpy(&threshold_, value, sizeof threshold_);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      memcpy(&number, value, sizeof number);
      if (number != 0) return CUDA_ERROR_INVALID_VALUE;
      (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? most_used_ : most_held_) =
          attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? used_ : held_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return CUDA_SUCCESS;  // blocks are reused only after their free has run
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Pool::GetAttribute(CUmemPool_attribute attribute, void* value) {
  MutexLock lock(mu_);
  uint64_t number = 0;
  switch (int(attribute)) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      number = threshold_;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      number = held_;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      number = most_held_;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      number = used_;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      number = most_used_;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  memcpy(value, &number, sizeof number);
  return CUDA_SUCCESS;
}

}  // namespace parkade::sim
