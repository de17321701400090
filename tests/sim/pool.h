// Pool: memory of cuMemAllocAsync, which the pool may keep after it was freed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "common/mutex.h"
#include "tests/sim/driver.h"

namespace parkade::sim {

// A block that was freed stays with the pool while the pool holds no more than its threshold, and
// serves the next request of its size. Any thread.
class Pool {
 public:
  explicit Pool(int pool_gpu) : gpu(pool_gpu) {}
  ~Pool() { Trim(0); }

  CUresult Allocate(Context& context, CUmemoryPool self, Bytes bytes, Address* base);
  // INVALID_VALUE when `base` is no live block of this pool.
  CUresult Free(Address base);
  // Gives kept blocks back until at most `keep` bytes are held.
  void Trim(Bytes keep);

  CUresult SetAttribute(CUmemPool_attribute attribute, const void* value);
  CUresult GetAttribute(CUmemPool_attribute attribute, void* value);

  const int gpu;

 private:
  void TrimLocked(Bytes keep) REQUIRES(mu_);

  Mutex mu_;  // AddressSpace's lock is taken inside
  std::map<Address, Bytes> live_ GUARDED_BY(mu_);
  std::map<Address, Bytes> kept_ GUARDED_BY(mu_);
  uint64_t threshold_ GUARDED_BY(mu_) = 0;
  Bytes used_ GUARDED_BY(mu_) = 0;
  Bytes held_ GUARDED_BY(mu_) = 0;  // live and kept
  Bytes most_used_ GUARDED_BY(mu_) = 0;
  Bytes most_held_ GUARDED_BY(mu_) = 0;
};

// The pool that memory belongs to, or nullptr.
std::shared_ptr<Pool> FindPool(CUmemoryPool handle);

}  // namespace parkade::sim
